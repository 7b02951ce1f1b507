"""EGRL's experiments: learning curves, transfer, embeddings and memory-map shifts, from runs to figures.

Source: EGRL, section 5 (Figures 3 to 6) and appendix F (Figure F.2).

Deviations (the report says them, too): the chip is this package's simulator; policies for Figure 4 are those of seed 0;
pre-training is not in the paper.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from egrl import atomic, run_folder, saved_policies, transfer
from egrl.figures import FIGURES
from egrl.past_run import PastRun
from egrl.reproduce.comparing import compared
from egrl.reproduce.folder import remember, save_figure
from workloads.errors import InputError
from workloads.load import load

Say = Callable[[str], None]
DRAWN = ("umap", "shift", "bands", "utilisation", "breakdown")
"""Figures of the first method's runs, a workload each."""
METHODS = ("egrl", "ea", "pg", "greedy-dp", "annealing", "random")
SECONDS_AN_EVALUATION = {"egrl": (0.017, 1.6e-4), "pg": (0.014, 1.6e-4)}
"""Method -> seconds and seconds a node, one thread of a 2.5 GHz server core; others: `OTHERS`."""
OTHERS = (0.0015, 7e-6)
A_RUN_S = 6.0
"""Seconds of a run that are not its search: starting, its bound, writing."""
PRETRAINING_S = 0.0026
"""Seconds an evaluation in pre-training."""


@dataclass(frozen=True)
class Plan:
    """What is run.

    Attributes:
        workloads: of Figures 3, 5 and 6.
        methods: of Figure 3; the first is the one that the other figures show.
        evals, seeds: of each run of Figure 3.
        printed_seeds: of the paper's algorithm as printed (`--preset paper`, methods egrl and ea).
        sources: workloads whose policies are transferred in Figure 4.
        training, validation: of pre-training.
        held_out: workloads that no policy was trained on.
        gens: of pre-training.
        alone: further training workloads on which policies are trained alone.
    """

    workloads: tuple[str, ...] = ("resnet50", "resnet101", "bert")
    methods: tuple[str, ...] = METHODS
    evals: int = 4000
    seeds: int = 5
    printed_seeds: int = 3
    sources: tuple[str, ...] = ("bert", "resnet50")
    training: tuple[str, ...] = (
        "alexnet",
        "mobilenet_v2",
        "resnet50",
        "resnet101",
        "bert",
        "unet",
        "bert:layers=6",
        "resnet50:batch=4",
    )
    validation: tuple[str, ...] = (
        "mobilenet_v2:width=1.4",
        "bert:layers=4:length=256",
        "resnet101:batch=2",
    )
    held_out: tuple[str, ...] = ("resnet18", "resnet34", "resnet152", "vgg16", "gpt2")
    gens: int = 2000
    alone: tuple[str, ...] = ("alexnet", "mobilenet_v2", "unet")

    @staticmethod
    def quick() -> Plan:
        """Everything once and small: it shows that and how it works, not what it reaches."""
        return replace(
            Plan(),
            workloads=("resnet50", "alexnet"),
            methods=("egrl", "ea", "pg", "greedy-dp"),
            evals=630,
            seeds=2,
            printed_seeds=1,
            sources=("resnet50", "alexnet"),
            training=("alexnet", "resnet50", "mobilenet_v2"),
            validation=("resnet34",),
            held_out=("resnet18", "vgg16"),
            gens=60,
            alone=("mobilenet_v2",),
        )


def seconds(plan: Plan, workers: int) -> float:
    """About how long it takes; measured on one machine, so that yours may be twice as fast or slow."""
    nodes = {workload: len(load(workload)) for workload in (*plan.workloads, *plan.alone)}
    total = 0.0
    for methods, seeds in ((plan.methods, plan.seeds), (("egrl", "ea"), plan.printed_seeds)):
        for method in methods:
            base, each = SECONDS_AN_EVALUATION.get(method, OTHERS)
            total += seeds * len(plan.workloads) * A_RUN_S
            total += seeds * plan.evals * sum(base + each * nodes[workload] for workload in plan.workloads)
    base, each = SECONDS_AN_EVALUATION["egrl"]
    total += plan.evals * sum(base + each * nodes[workload] for workload in plan.alone)
    return total / workers + plan.gens * 21 * PRETRAINING_S + 60.0


def reproduce(plan: Plan, out: Path, workers: int, say: Say) -> Path:
    """Run what is missing in `out`, draw the figures, and write report.md. Returns its path.

    Raises:
        InputError: the folder holds something else.
        Interrupted: the user stopped it; the same call goes on.
        RunFailure: a run failed.
    """
    figures = out / "figures"
    atomic.make_folder(figures)
    remember(plan, out)
    cold = _compared(plan, plan.methods, plan.seeds, out / "figure3", {"start": "cold"}, workers, say)
    printed = _compared(
        plan, ("egrl", "ea"), plan.printed_seeds, out / "as-printed", {"preset": "paper"}, workers, say
    )
    results: dict[str, Any] = {"plan": asdict(plan), "cold": cold, "printed": printed}
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
    results["transfer"] = _transferred(plan, out, figures, say)
    results["pretraining"] = _pretrained(plan, out, figures, workers, say)
    spent = _seconds_searched(out)
    atomic.write(out / "results.json", json.dumps({**results, "seconds": spent}, indent=1) + "\n")
    from egrl.reproduce.egrl_report import report

    path = out / "report.md"
    atomic.write(path, report(results, spent))
    return path


def _compared(
    plan: Plan,
    methods: Sequence[str],
    seeds: int,
    folder: Path,
    given: Mapping[str, str],
    workers: int,
    say: Say,
) -> dict[str, Any]:
    """A comparison in a folder, run as far as it is missing."""
    return compared(
        plan.workloads,
        methods,
        seeds,
        folder,
        workers,
        lambda line: say(f"{folder.name}: {line}"),
        **{"problem": "nnpi", "evals": plan.evals, **given},
    )


def _all_runs(plan: Plan, out: Path, workload: str) -> list[PastRun]:
    folder = out / "figure3" / workload
    return [PastRun.read(folder / f"{m}-s{seed}") for m in plan.methods for seed in range(plan.seeds)]


def _draw(figure: str, given: Sequence[Any], path: Path) -> dict[str, Any]:
    """Save a figure; returns the numbers behind it."""
    import importlib

    drawing = importlib.import_module(FIGURES[figure][1]).draw(given)
    save_figure(drawing.figure, path)
    return dict(drawing.numbers)


def _place(folder: Path, workloads: Sequence[str]) -> Any:
    """What `egrl transfer` does with a folder, for a figure."""
    from egrl.figures.transfers import Transferred

    source = saved_policies.read(folder)
    placed = transfer.zero_shot(source, transfer.build_targets(source, workloads))
    return Transferred(folder, transfer.document(source, placed, ()))


def _transferred(plan: Plan, out: Path, figures: Path, say: Say) -> dict[str, Any]:
    """Figure 4."""
    targets = tuple(dict.fromkeys([*plan.workloads, *plan.held_out]))
    found = []
    for workload in plan.sources:
        say(f"placing the policies of {workload} on {len(targets)} workloads")
        found.append(_place(out / "figure3" / workload / "egrl-s0", targets))
    return _draw("transfer", found, figures / "transfer.png")


def _pretrained(plan: Plan, out: Path, figures: Path, workers: int, say: Say) -> dict[str, Any]:
    """Pre-training, and every single-workload policy beside it on what nobody was trained on."""
    from egrl.pretrain import pretrain
    from egrl.pretrain_options import PretrainOptions

    say(f"pre-training on {len(plan.training)} workloads, {plan.gens} generations")
    options = PretrainOptions(plan.training, plan.validation, plan.gens, workers=1)
    chosen = pretrain(options, out / "pretrained")
    alone = replace(plan, workloads=plan.alone)
    _compared(alone, ("egrl",), 1, out / "alone", {"start": "cold"}, workers, say)
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
