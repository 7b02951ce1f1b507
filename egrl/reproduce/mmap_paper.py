"""The MMapGame's experiments: the agent and its rivals, what each of its parts is worth, and what latency says.

Source: MMapGame paper, section 5 (Tables 2 to 5, Figures 5 to 8) and appendix B (Figure 10).

Deviations (the report says them, too): the programs are this package's own; the latency is a simulated device's;
budgets are minutes of this machine, not a day of the paper's hardware. One agent for several programs is not in the
paper.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from egrl import atomic
from egrl.reproduce.comparing import compared
from egrl.reproduce.folder import remember
from workloads.load_program import program_names

Say = Callable[[str], None]
AGENT = "muzero"
WITHOUT_REVISION = (f"{AGENT}.imitations=0", f"{AGENT}.revise.moves=0")
UNTAUGHT = (f"{AGENT}.ablation=no-learning", f"{AGENT}.value_scale=0.1")
"""What is searched by the rules does not err, and deserves more trust than the default gives to learned values."""
FULL, UNREVISED = "full agent", "no-revision"
"""The agent, and the agent without what the paper's does not have, revisions and imitations; both are run on all
programs of Table 2."""
ABLATIONS = {
    "no-learning": (*UNTAUGHT, *WITHOUT_REVISION),
    "no-search": (f"{AGENT}.ablation=no-search",),
    "revisions alone": (
        *UNTAUGHT,
        f"{AGENT}.slots=2",
        f"{AGENT}.chunk=4",
        f"{AGENT}.revise.moves=20000",
    ),
}
"""Settings of the agent without some of its parts: the first two are those of Figure 7, and revise nothing; the last
does hardly anything but revise: nothing is learned, and hardly a move is planned."""
OTHERS = f"{UNREVISED}-others"
"""Folder of the agent's runs without revisions on programs that are not ablated."""
STARTING_S = 15.0
"""Seconds of a run that are not its search."""


@dataclass(frozen=True)
class Plan:
    """What is run.

    Attributes:
        programs: of Table 2 and Figure 5.
        methods: each in the same seconds, the agent among them; the others are the paper's rivals.
        seconds: of searching, a run.
        threads: of each run; one is what rivals without a learner can use.
        seeds: of each run; unrevised_seeds: of the agent without revisions on programs that are not `ablated`.
        settings: as `egrl compare --set` takes them. One random network may choose the same action everywhere,
            whatever little is added to its weights, so that ES begins with the best of several. The agent's hold
            wherever it is run.
        bound_seconds: limit of each upper bound.
        ablated: of Figure 7, one of `programs`; its runs of the agent are those of Table 2.
        shown: of Figure 8, likewise.
        suite, suite_seconds: programs of Tables 3 to 5 and Figures 6 and 10, a run of the agent each, and its length.
        extremes: how many programs with the largest and the smallest speedups are looked at in Figure 6.
        training, validation, shared_seconds: of one agent for several programs.
        held_out, held_out_seconds: what that agent is placed on, and how long it then goes on.
    """

    programs: tuple[str, ...] = (
        "alexnet_train_batch_32",
        "wavenet_coherent_batch32",
        "alphatensor",
        "tensor2tensor_transformer_bf16",
    )
    methods: tuple[str, ...] = (AGENT, "es", "random")
    seconds: float = 1800.0
    threads: int = 1
    seeds: int = 3
    unrevised_seeds: int = 1
    settings: tuple[str, ...] = ("es.scouts=20",)
    bound_seconds: float = 60.0
    ablated: str = "alexnet_train_batch_32"
    shown: str = "alexnet_train_batch_32"
    suite: tuple[str, ...] = field(default_factory=program_names)
    suite_seconds: float = 120.0
    extremes: int = 3
    training: tuple[str, ...] = (
        "alexnet_train_batch_32",
        "bert_base_inference",
        "gpt_decode_step",
        "inference_resnet",
        "rnn_2",
        "unet_train",
    )
    validation: tuple[str, ...] = ("inference_lstm",)
    shared_seconds: float = 1800.0
    held_out: tuple[str, ...] = ("dlrm_train", "mnasnet_b1_batch_128", "rnn_6", "vit_b16_inference_bf16")
    held_out_seconds: float = 300.0

    def __post_init__(self) -> None:
        """Raises ValueError where a setting changes the rules, which bounds and baselines would not know."""
        if rules := [setting for setting in self.settings if setting.startswith("problem.")]:
            raise ValueError(f"settings: expected settings of methods, received {rules[0]}")

    @property
    def others(self) -> tuple[str, ...]:
        """Programs of Table 2 that are not `ablated`."""
        return tuple(program for program in self.programs if program != self.ablated)

    def unrevised(self, program: str) -> tuple[str, int]:
        """The folder of the agent's runs without revisions on a program of Table 2, and how many there are."""
        if program == self.ablated:
            return folder_of(UNREVISED), self.seeds
        return OTHERS, self.unrevised_seeds

    @staticmethod
    def quick() -> Plan:
        """Small programs, briefly: it shows that and how it works, not what it reaches."""
        return replace(
            Plan(),
            programs=("dlrm_inference", "alexnet_train_batch_32"),
            seconds=40.0,
            seeds=2,
            settings=("es.scouts=20", "muzero.slots=16", "muzero.simulations=16"),
            bound_seconds=10.0,
            ablated="dlrm_inference",
            suite=(
                "alexnet_train_batch_32",
                "bert_base_inference",
                "dlrm_inference",
                "dlrm_train",
                "inference_resnet",
                "rnn_2",
            ),
            suite_seconds=20.0,
            training=("dlrm_inference", "alexnet_train_batch_32"),
            validation=(),
            shared_seconds=60.0,
            held_out=("rnn_2", "dlrm_train"),
            held_out_seconds=20.0,
        )


def folder_of(part: str) -> str:
    """Where the runs without a part are."""
    return "ablation/" + part.replace(", ", "-").replace(" ", "-")


def seconds(plan: Plan, workers: int) -> float:
    """About how long it takes."""
    long = [len(plan.programs) * len(plan.methods) * plan.seeds, len(plan.others) * plan.unrevised_seeds]
    long += [plan.seeds] * (1 + len(ABLATIONS))

    def waves(runs: int) -> int:
        return -(-runs // workers)

    searched = sum(waves(runs) for runs in long) * (plan.seconds + STARTING_S)
    searched += waves(len(plan.suite)) * (plan.suite_seconds + STARTING_S)
    searched += 2 * waves(len(plan.held_out)) * (plan.held_out_seconds + STARTING_S)
    return searched + len(plan.programs) * plan.bound_seconds + plan.shared_seconds + STARTING_S


def reproduce(plan: Plan, out: Path, workers: int, say: Say) -> Path:
    """Run what is missing in `out`, draw the figures, and write report.md. Returns its path.

    Raises:
        InputError: the folder holds something else.
        Interrupted: the user stopped it; the same call goes on.
        RunFailure: a run failed.
    """
    from egrl.reproduce import mmap_numbers, mmap_shared
    from egrl.reproduce.mmap_report import report

    atomic.make_folder(out / "figures")
    remember(plan, out)
    own = tuple(setting for setting in plan.settings if setting.startswith(f"{AGENT}."))

    def run(
        folder: str,
        programs: Sequence[str],
        methods: Sequence[str] = (AGENT,),
        seconds: float = plan.suite_seconds,
        seeds: int = 1,
        settings: Sequence[str] = own,
        init: str = "",
    ) -> None:
        """Runs in a folder, as far as they are missing."""
        compared(
            programs,
            methods,
            seeds,
            out / folder,
            workers,
            lambda line: say(f"{folder}: {line}"),
            problem="mmap",
            seconds=seconds,
            start="cold",
            settings=settings,
            threads=plan.threads,
            init=init,
        )

    run("table2", plan.programs, plan.methods, plan.seconds, plan.seeds, plan.settings)
    for part, without in ({UNREVISED: (f"{AGENT}.ablation={UNREVISED}",)} | ABLATIONS).items():
        settings = (*own, *without)
        run(folder_of(part), (plan.ablated,), seconds=plan.seconds, seeds=plan.seeds, settings=settings)
        if part == UNREVISED and plan.others:
            seeds = plan.unrevised_seeds
            run(OTHERS, plan.others, seconds=plan.seconds, seeds=seeds, settings=settings)
    run("suite", plan.suite)
    results: dict[str, Any] = {"plan": asdict(plan), "programs": {}}
    for program in plan.programs:
        say(f"bounding {program}")
        results["programs"][program] = mmap_numbers.program(plan, program, out)
    mmap_numbers.draw_rewards(plan, results, out)
    results["ablation"] = mmap_numbers.ablation(plan, results, out)
    results["suite"] = mmap_numbers.suite(plan, out)
    results["correlation"] = mmap_numbers.correlation(plan, results["suite"], out)
    results["layout"] = mmap_numbers.layout(plan, out)
    results["shared"] = mmap_shared.shared(plan, out, run, say)
    return _written(results, out, report)


def _written(results: Mapping[str, Any], out: Path, report: Callable[[Mapping[str, Any]], str]) -> Path:
    """results.json, and the report that is made of it."""
    atomic.write(out / "results.json", json.dumps(results, indent=1) + "\n")
    path = out / "report.md"
    atomic.write(path, report(json.loads((out / "results.json").read_text())))
    return path
