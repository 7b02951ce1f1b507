"""The experiments on multi-chip modules: reinforcement learning from scratch, pre-trained, fine-tuned, and its rivals.

Source: "A Transferable Approach for Partitioning Machine Learning Models on Multi-Chip-Modules", sections 5.1 to 5.4
(Tables 2 and 3, Figures 5 to 7).

Deviations (the report says them, too): the graphs are `workloads/zoo/mcm87.py`, the hardware is the device model of
`hwsim/mcm/device.py`; every run measures the greedy heuristic's partition first, and searches that go on from one begin
at it; `ppo` with our own moves, `egrl` and their policies are not in the paper, nor are policies whose weights stay as
drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from egrl.reproduction import Paper, Say, open_folder, run_comparison, write_report
from egrl.runs import folder as run_folder
from egrl.transfer.pretrain import pretrain
from egrl.transfer.validation import CHOSEN, CHOSEN_FINETUNED, PretrainOptions
from egrl.transfer.zero_shot import read_policies
from papers.mcm import numbers
from papers.mcm.plan import ON_HELD_OUT, ON_TEST, POLICIES, STARTING_S, VARIANTS, Plan, Searches, Variant
from papers.mcm.report import report


def seconds(plan: Plan, jobs: int) -> float:
    """About how long it takes."""
    checkpoints = plan.gens / plan.save_every
    trained = len(plan.policies) * (
        plan.gens * 0.5 + checkpoints * len(plan.validation) * plan.validation_evaluations * 0.02 / jobs
    )
    searched = 0.0
    for label in plan.variants:
        own = VARIANTS[label]
        searched += plan.seeds * len(plan.test) * (STARTING_S + own.second_s * plan.test_evaluations)
        longer_s = own.longer * own.second_s
        searched += plan.held_out_seeds * (STARTING_S + longer_s * plan.held_out_evaluations)
    return trained + searched / jobs


def reproduce(plan: Plan, out: Path, jobs: int, say: Say, workers: int = 1) -> Path:
    """Run what is missing in `out`, draw the figures, and write report.md. Returns its path.

    `jobs` runs at once, with so many `workers` each.

    Raises:
        InputError: the folder holds something else.
        Interrupted: the user stopped it; the same call goes on.
        RunFailure: a run failed.
    """
    open_folder(plan, out)
    policies = {label: _pretrain(plan, label, out, max(jobs, workers), say) for label in plan.policies}
    parts = (plan.on(ON_HELD_OUT), plan.on(ON_TEST))
    for part in parts:
        for label in plan.variants:
            _run(out / part.where / label, VARIANTS[label], part, policies, jobs, workers, say)
    results: dict[str, Any] = {"plan": asdict(plan)}
    results["pretraining"] = numbers.pretraining(policies, out)
    for part in parts:
        results[part.where] = numbers.searches(part, plan.variants, out / part.where)
    numbers.draw(plan, results, out)
    say(f"drawing {plan.samples:,} partitions of {plan.held_out}")
    results["models"] = numbers.models(plan, out)
    return write_report(results, out, report)


def problem_settings(where: str) -> tuple[str, ...]:
    """The problem's settings on the test graphs (analytical model) and on the held-out graph (device model)."""
    return ("problem.model=device",) if where == ON_HELD_OUT else ()


def _pretrain(plan: Plan, label: str, out: Path, workers: int, say: Say) -> Path:
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
    read_policies(folder)
    return folder


def _run(
    folder: Path,
    variant: Variant,
    part: Searches,
    policies: Mapping[str, Path],
    jobs: int,
    workers: int,
    say: Say,
) -> None:
    """The runs of one variant on some graphs, as far as they are missing."""
    trained, _, zero_shot = variant.init.partition(" ")
    init = str(policies[trained] / (CHOSEN if zero_shot else CHOSEN_FINETUNED)) if trained else ""
    run_comparison(
        part.graphs,
        (variant.method,),
        part.seeds,
        folder,
        jobs,
        lambda line: say(f"{part.where}, {folder.name}: {line}"),
        problem="mcm",
        evals=part.evaluations,
        start="compiler",
        settings=(*problem_settings(part.where), *variant.settings),
        init=init,
        workers=workers,
    )


PAPER = Paper(lambda quick: Plan.quick() if quick else Plan(), seconds, reproduce)
"""What `egrl reproduce` finds."""
