"""The experiments on multi-chip modules: reinforcement learning from scratch, pre-trained, fine-tuned, and its rivals.

Source: "A Transferable Approach for Partitioning Machine Learning Models on Multi-Chip-Modules", sections 5.1 to 5.4
(Tables 2 and 3, Figures 5 to 7).

Deviations (the report says them, too): the graphs are `workloads/zoo/mcm87.py`, the hardware is the device model of
`hwsim/mcm/device.py`; `egrl` and its own policies are not in the paper, nor is the policy whose weights stay as drawn.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from egrl import atomic, run_folder, saved_policies
from egrl.pretrain import pretrain
from egrl.pretrain_choice import CHOSEN, CHOSEN_FINETUNED
from egrl.pretrain_options import PretrainOptions
from egrl.reproduce.comparing import compared
from egrl.reproduce.folder import remember
from workloads.zoo.mcm87 import split

Say = Callable[[str], None]
STARTING_S = 4.0
"""Seconds of a run that are not its search."""


@dataclass(frozen=True)
class Variant:
    """One way to search.

    Attributes:
        method: its name; settings: as `egrl compare --set` takes them.
        init: label of POLICIES that it begins with (the best to go on from; followed by "zero-shot" the best with no
            training), or "" for none.
        second_s: about how many seconds an evaluation takes.
    """

    method: str
    settings: tuple[str, ...] = ()
    init: str = ""
    second_s: float = 0.003


PLAIN = {"network.slope": 0.0, "outset": "nothing"}
"""Settings of a policy that does not know, before any learning, how a pipeline lies evenly: as the paper's."""
POLICIES: dict[str, tuple[str, dict[str, Any]]] = {
    "ppo": ("ppo", {}),
    "plain": ("ppo", PLAIN),
    "es": ("es", {}),
}
"""Label of a pre-training -> method and its settings."""
_PLAIN = tuple(f"ppo.{key}={value}" for key, value in PLAIN.items())
_FROZEN = ("ppo.learner.epochs=0",)
VARIANTS: dict[str, Variant] = {
    "rl": Variant("ppo", second_s=0.01),
    "rl-finetuned": Variant("ppo", init="ppo", second_s=0.01),
    "rl-zeroshot": Variant("ppo", _FROZEN, "ppo zero-shot"),
    "rl-frozen": Variant("ppo", _FROZEN),
    "rl-sample": Variant("ppo", ("ppo.draw=problem",), second_s=0.01),
    "plain": Variant("ppo", _PLAIN, second_s=0.01),
    "plain-finetuned": Variant("ppo", _PLAIN, "plain", 0.01),
    "plain-zeroshot": Variant("ppo", (*_PLAIN, *_FROZEN), "plain zero-shot"),
    "random": Variant("random"),
    "sa": Variant("annealing", ("annealing.space=distributions",)),
    "annealing": Variant("annealing"),
    "egrl": Variant("egrl", second_s=0.01),
    "egrl-finetuned": Variant("egrl", init="es", second_s=0.01),
}
"""Label -> what it is; the first is what the others are held against."""
TUNED = {"rl": "rl-finetuned", "plain": "plain-finetuned"}
"""What begins from scratch -> the same with a pre-trained policy."""
ON_TEST, ON_HELD_OUT = "test", "held-out"


@dataclass(frozen=True)
class Plan:
    """What is run.

    Attributes:
        training, validation, test: graphs.
        held_out: graph that is measured on the device model.
        variants: labels of VARIANTS; the first is what the others are held against.
        policies: labels of POLICIES, those that variants begin with.
        gens, save_every: of the pre-trainings: generations of 21 samples, and those between checkpoints.
        validation_evaluations: with which each checkpoint goes on on each validation graph.
        test_evaluations, held_out_evaluations: of each run.
        seeds: of each run.
        samples: partitions of Figure 7.
        sample_s, budget_s: seconds of the simulated clock that a sample takes on hardware, and of the fixed budget.
    """

    training: tuple[str, ...] = split().training
    validation: tuple[str, ...] = split().validation
    test: tuple[str, ...] = split().test
    held_out: str = "bert_large"
    variants: tuple[str, ...] = tuple(VARIANTS)
    policies: tuple[str, ...] = tuple(POLICIES)
    gens: int = 1000
    save_every: int = 5
    validation_evaluations: int = 42
    test_evaluations: int = 504
    held_out_evaluations: int = 798
    seeds: int = 5
    samples: int = 2000
    sample_s: float = 26.97
    budget_s: float = 600.0

    @staticmethod
    def quick() -> Plan:
        """Few graphs, briefly: it shows that and how it works, not what it reaches."""
        return replace(
            Plan(),
            training=("resnet18", "mobilenet_v3_small", "squeezenet1_1", "text_cnn", "gru_lm", "ncf"),
            validation=("resnet34",),
            test=("mobilenet_v1", "crnn", "vdcnn"),
            held_out="bert",
            gens=30,
            validation_evaluations=21,
            test_evaluations=84,
            held_out_evaluations=84,
            seeds=2,
            samples=200,
        )


def seconds(plan: Plan, workers: int) -> float:
    """About how long it takes."""
    checkpoints = plan.gens / plan.save_every
    trained = len(plan.policies) * (
        plan.gens * 0.5 + checkpoints * len(plan.validation) * plan.validation_evaluations * 0.02 / workers
    )
    searched = 0.0
    for label in plan.variants:
        each = VARIANTS[label].second_s
        searched += plan.seeds * len(plan.test) * (STARTING_S + each * plan.test_evaluations)
        searched += plan.seeds * (STARTING_S + 3 * each * plan.held_out_evaluations)
    return trained + searched / workers


def reproduce(plan: Plan, out: Path, workers: int, say: Say) -> Path:
    """Run what is missing in `out`, draw the figures, and write report.md. Returns its path.

    Raises:
        InputError: the folder holds something else.
        Interrupted: the user stopped it; the same call goes on.
        RunFailure: a run failed.
    """
    from egrl.reproduce import mcm_numbers
    from egrl.reproduce.mcm_report import report

    atomic.make_folder(out / "figures")
    remember(plan, out)
    policies = {label: _pretrained(plan, label, out, workers, say) for label in plan.policies}
    for where, graphs, evaluations in (
        (ON_HELD_OUT, (plan.held_out,), plan.held_out_evaluations),
        (ON_TEST, plan.test, plan.test_evaluations),
    ):
        for label in plan.variants:
            _run(
                out / where / label, VARIANTS[label], where, graphs, evaluations, plan, policies, workers, say
            )
    results: dict[str, Any] = {"plan": asdict(plan)}
    results["pretraining"] = mcm_numbers.pretraining(policies, out)
    results[ON_TEST] = mcm_numbers.searches(plan, out / ON_TEST, plan.test, plan.test_evaluations)
    results[ON_HELD_OUT] = mcm_numbers.searches(
        plan, out / ON_HELD_OUT, (plan.held_out,), plan.held_out_evaluations
    )
    mcm_numbers.draw(plan, results, out)
    say(f"drawing {plan.samples:,} partitions of {plan.held_out}")
    results["models"] = mcm_numbers.models(plan, out)
    atomic.write(out / "results.json", json.dumps(results, indent=1) + "\n")
    path = out / "report.md"
    atomic.write(path, report(json.loads((out / "results.json").read_text())))
    return path


def problem_settings(where: str) -> tuple[str, ...]:
    """The problem's settings on the test graphs (analytical model) and on the held-out graph (device model)."""
    return ("problem.model=device",) if where == ON_HELD_OUT else ()


def _pretrained(plan: Plan, label: str, out: Path, workers: int, say: Say) -> Path:
    """The folder of a pre-training, finished."""
    folder, (method, settings) = out / "pretrained" / label, POLICIES[label]
    if not (folder / run_folder.PRETRAINING).is_file():
        say(
            f"pre-training `{label}`: {plan.gens} generations on {len(plan.training)} graphs, then validation"
        )
        options = PretrainOptions(
            plan.training,
            plan.validation,
            gens=plan.gens,
            problem="mcm",
            method=method,
            method_settings=settings,
            workers=workers,
            save_every=plan.save_every,
            finetune=plan.validation_evaluations,
        )
        pretrain(options, folder)
    saved_policies.read(folder)
    return folder


def _run(
    folder: Path,
    variant: Variant,
    where: str,
    graphs: tuple[str, ...],
    evaluations: int,
    plan: Plan,
    policies: Mapping[str, Path],
    workers: int,
    say: Say,
) -> None:
    """The runs of one variant on some graphs, as far as they are missing."""
    trained, _, zero_shot = variant.init.partition(" ")
    init = str(policies[trained] / (CHOSEN if zero_shot else CHOSEN_FINETUNED)) if trained else ""
    compared(
        graphs,
        (variant.method,),
        plan.seeds,
        folder,
        workers,
        lambda line: say(f"{where}, {folder.name}: {line}"),
        problem="mcm",
        evals=evaluations,
        start="cold",
        settings=(*problem_settings(where), *variant.settings),
        init=init,
    )
