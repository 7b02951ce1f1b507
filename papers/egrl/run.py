"""EGRL's experiments: learning curves, transfer, embeddings and memory-map shifts, from runs to figures.

Source: EGRL, section 5 (Figures 3 to 6) and appendix F (Figure F.2).

Deviations (the report says them, too): the chip is this package's simulator; policies for Figure 4 are those of seed 0;
pre-training is not in the paper. What is run as ours stands in `ours.toml`, every setting: population and learner
alone, without the profile model, begun with nothing that was trained before.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from egrl.core import VERSION
from egrl.figures import find_figure
from egrl.reproduction import Paper, Say, open_folder, run_comparison, save_figure, write_report
from egrl.runs import folder as run_folder
from egrl.runs.past_run import PastRun
from egrl.transfer import zero_shot as transfer
from papers.egrl.plan import (
    A_RUN_S,
    AS_PRINTED_SECONDS,
    DRAWN,
    OTHERS,
    PRETRAINING_S,
    PRINTED,
    SECONDS_AN_EVALUATION,
    Plan,
    ours,
)
from papers.egrl.report import report
from workloads.errors import InputError
from workloads.load import load


def seconds(plan: Plan, jobs: int) -> float:
    """About how long it takes; measured on one machine, so that yours may be twice as fast or slow."""
    nodes = {workload: len(load(workload)) for workload in (*plan.workloads, *plan.alone)}
    total = 0.0
    own = (plan.methods, plan.seeds, SECONDS_AN_EVALUATION)
    for methods, seeds, taken in (own, (PRINTED, plan.printed_seeds, AS_PRINTED_SECONDS)):
        for method in methods:
            base, each = taken.get(method, OTHERS)
            total += seeds * len(plan.workloads) * A_RUN_S
            total += seeds * plan.evals * sum(base + each * nodes[workload] for workload in plan.workloads)
    base, each = SECONDS_AN_EVALUATION["egrl"]
    total += plan.evals * sum(base + each * nodes[workload] for workload in plan.alone)
    return total / jobs + plan.gens * 21 * PRETRAINING_S + 60.0


def reproduce(plan: Plan, out: Path, jobs: int, say: Say, workers: int = 1) -> Path:
    """Run what is missing in `out`, draw the figures, and write report.md. Returns its path.

    `jobs` runs at once, with so many `workers` each.

    Raises:
        InputError: the folder holds something else.
        Interrupted: the user stopped it; the same call goes on.
        RunFailure: a run failed.
    """
    figures = out / "figures"
    open_folder(plan, out)
    measured = {"workers": workers}
    given = {**measured, "start": "cold", "settings": ours(plan.methods)}
    cold = _compare(plan, plan.methods, plan.seeds, out / "figure3", given, jobs, say)
    printed = _compare(
        plan,
        PRINTED,
        plan.printed_seeds,
        out / "as-printed",
        {**measured, "preset": "paper"},
        jobs,
        say,
    )
    results: dict[str, Any] = {"plan": asdict(plan), "egrl": VERSION}
    results |= {"cold": cold, "printed": printed}
    results |= {figure: {} for figure in DRAWN}
    for workload in plan.workloads:
        runs = [PastRun.read(out / "figure3" / workload / f"egrl-s{seed}") for seed in range(plan.seeds)]
        for figure in DRAWN:
            say(f"drawing {figure} of {workload}")
            try:
                numbers = _draw(figure, runs, figures / f"{figure}-{workload}.png")
            except InputError as error:  # too few mappings of a kind: the other figures still can be drawn
                say(f"{figure} of {workload} is left out: {error}")
                continue
            results[figure][workload] = numbers
        _draw("curves", _all_runs(plan, out, workload), figures / f"curves-{workload}.png")
    results["transfer"] = _transfer(plan, out, figures, say)
    results["pretraining"] = _pretrain(plan, out, figures, jobs, workers, say)
    results["seconds"] = _seconds_searched(out)
    return write_report(results, out, report)


def _compare(
    plan: Plan,
    methods: Sequence[str],
    seeds: int,
    folder: Path,
    given: Mapping[str, Any],
    jobs: int,
    say: Say,
) -> dict[str, Any]:
    """A comparison in a folder, run as far as it is missing."""
    return run_comparison(
        plan.workloads,
        methods,
        seeds,
        folder,
        jobs,
        lambda line: say(f"{folder.name}: {line}"),
        **{"problem": "nnpi", "evals": plan.evals, **given},
    )


def _all_runs(plan: Plan, out: Path, workload: str) -> list[PastRun]:
    folder = out / "figure3" / workload
    return [PastRun.read(folder / f"{m}-s{seed}") for m in plan.methods for seed in range(plan.seeds)]


def _draw(figure: str, given: Sequence[Any], path: Path) -> dict[str, Any]:
    """Save a figure; returns the numbers behind it."""
    drawing = find_figure(figure).draw(given)
    save_figure(drawing.figure, path)
    return dict(drawing.numbers)


def _place(folder: Path, workloads: Sequence[str]) -> Any:
    """What `egrl transfer` does with a folder, for a figure."""
    from egrl.figures.curves import Transferred

    source = transfer.read_policies(folder)
    placed = transfer.zero_shot(source, transfer.build_targets(source, workloads))
    return Transferred(folder, transfer.document(source, placed, ()))


def _transfer(plan: Plan, out: Path, figures: Path, say: Say) -> dict[str, Any]:
    """Figure 4."""
    targets = tuple(dict.fromkeys([*plan.workloads, *plan.held_out]))
    found = []
    for workload in plan.sources:
        say(f"placing the policies of {workload} on {len(targets)} workloads")
        found.append(_place(out / "figure3" / workload / "egrl-s0", targets))
    return _draw("transfer", found, figures / "transfer.png")


def _pretrain(plan: Plan, out: Path, figures: Path, jobs: int, workers: int, say: Say) -> dict[str, Any]:
    """Pre-training, and every single-workload policy beside it on what nobody was trained on."""
    from egrl.transfer.pretrain import pretrain
    from egrl.transfer.validation import PretrainOptions

    say(f"pre-training on {len(plan.training)} workloads, {plan.gens} generations")
    options = PretrainOptions(plan.training, plan.validation, plan.gens, workers=workers)
    chosen = pretrain(options, out / "pretrained")
    alone = replace(plan, workloads=plan.alone)
    given = {"start": "cold", "workers": workers, "settings": ours(("egrl",))}
    _compare(alone, ("egrl",), 1, out / "alone", given, jobs, say)
    folders = [out / "pretrained"]
    folders += [out / "alone" / workload / "egrl-s0" for workload in plan.alone]
    for workload in plan.workloads:
        if workload in plan.training:
            folders += [out / "figure3" / workload / f"egrl-s{seed}" for seed in range(plan.seeds)]
    placed = [_place(folder, plan.held_out) for folder in folders]
    numbers = _draw("zeroshot", placed, figures / "zeroshot.png")
    _draw("transfer", placed[:1], figures / "pretraining.png")
    return {
        **numbers,
        "chosen": chosen["chosen"],
        "chosen_on": chosen["chosen_on"],
        "options": chosen["options"],
    }


def _seconds_searched(out: Path) -> float:
    """Seconds of all searches in the folder, as their own files have them: one after the other."""
    found = [*out.glob("*/*/*/summary.json"), out / "pretrained" / run_folder.PRETRAINING]
    return round(sum(json.loads(path.read_text())["seconds"] for path in found), 1)


PAPER = Paper(lambda quick: Plan.quick() if quick else Plan(), seconds, reproduce)
"""What `egrl reproduce` finds."""
