"""What the runs of `egrl reproduce mcm` say, as numbers and figures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from analysis.transfer import FAILED, geometric_mean
from egrl.problems import find_problem
from egrl.reproduction import LEVEL, mean_interval, save_figure
from egrl.runs import chunks
from egrl.runs import folder as run_folder
from hwsim.problem import Status
from papers.mcm.plan import AGENTS, ON_HELD_OUT, ON_TEST, TUNED, VARIANTS, Plan, Searches
from workloads.errors import InputError

if TYPE_CHECKING:
    from hwsim.mcm.problem import McmProblem
    from papers.mcm.figures import Agreement

SHARES = (0.9, 0.95, 1.0)
"""Of what the first variant reaches in the end: the throughputs to which samples are counted."""
RIVALS = ("random", "sa", "annealing")
"""What reinforcement learning is held against."""
BATCH = 100


def problem_of(name: str, where: str, **settings: Any) -> McmProblem:
    """A graph on the problem's own package, by the model of `where`."""
    from hwsim.mcm.config import McmConfig
    from hwsim.mcm.problem import McmProblem

    definition = find_problem("mcm").load()
    if where == ON_HELD_OUT:
        settings["model"] = "device"
    problem = definition.build(name, definition.chips()[0], McmConfig(**settings))
    assert isinstance(problem, McmProblem)
    return problem


def pretraining(folders: Mapping[str, Path], out: Path) -> dict[str, Any]:
    """What each pre-training's checkpoints reached on the validation graphs, and its figure."""
    from papers.mcm.figures import checkpoint_figure

    found = {}
    for method, folder in folders.items():
        document = json.loads((folder / run_folder.PRETRAINING).read_text())
        steps = document["steps"]
        found[method] = {
            "evaluations": [step["evaluations"] for step in steps],
            "zeroshot": [step["chosen_on"] for step in steps],
            "finetuned": [step["finetuned_on"] for step in steps],
            "seconds": document["seconds"],
            "chosen": document["chosen"],
            "chosen_finetuned": document["chosen_finetuned"],
        }
    save_figure(checkpoint_figure(found), out / "figures" / "checkpoints.png")
    return found


def searches(part: Searches, variants: Sequence[str], folder: Path) -> dict[str, Any]:
    """What the variants reached on some graphs: curves, final values, samples to throughputs, the fixed budget.

    Speedups are over the greedy heuristic; `over_random` is what to multiply them with for those over the random
    partition. Means over graphs are geometric (`analysis.transfer`), over seeds arithmetic.
    """
    graphs, evaluations = part.graphs, part.evaluations
    curves = {label: _curves(part, folder / label, label) for label in variants}
    means = {label: _over_graphs(own).mean(axis=0) for label, own in curves.items()}
    first = variants[0]
    goals = [share * float(means[first][-1]) for share in SHARES]
    needed = {label: [samples_to(mean, goal) for goal in goals] for label, mean in means.items()}
    finals = {label: _over_graphs(own)[:, -1] for label, own in curves.items()}
    return {
        "graphs": list(graphs),
        "evaluations": evaluations,
        "over_random": {name: _over_random(name, part.where) for name in graphs},
        "goals": goals,
        "variants": {
            label: {
                "curve": means[label].tolist(),
                "final": finals[label].tolist(),
                "by_graph": {name: curves[label][:, k, -1].tolist() for k, name in enumerate(graphs)},
                "samples": needed[label],
                "budget": _over_graphs(curves[label])[:, part.budget - 1].tolist(),
            }
            for label in variants
        },
        "transfer": {
            scratch: _transfer(means[scratch], means[tuned])
            for scratch, tuned in TUNED.items()
            if scratch in means and tuned in means
        },
        "budget_samples": part.budget,
        "against": {
            f"{label} - {rival}": _against(curves[label][:, :, -1], curves[rival][:, :, -1])
            for label in variants
            if VARIANTS[label].method in ("ppo", "egrl")
            for rival in dict.fromkeys((*RIVALS, *AGENTS, *TUNED))
            if rival in finals and rival != label
        },
    }


def _transfer(scratch: NDArray[np.float64], tuned: NDArray[np.float64]) -> list[dict[str, Any]]:
    """Samples to shares of what a run from scratch reaches in the end, by mean curves [E]."""
    goals = [share * float(scratch[-1]) for share in SHARES]
    return [
        {"goal": goal, "scratch": samples_to(scratch, goal), "tuned": samples_to(tuned, goal)}
        for goal in goals
    ]


def _curves(part: Searches, folder: Path, label: str) -> NDArray[np.float64]:
    """Best speedups so far, float64 [seeds, graphs, evaluations]; 0 until something ran."""
    method = VARIANTS[label].method
    return np.array(
        [
            [best_so_far(folder / graph / f"{method}-s{seed}", part.evaluations) for graph in part.graphs]
            for seed in range(part.seeds)
        ]
    )


def best_so_far(run: Path, evaluations: int) -> NDArray[np.float64]:
    """The best speedup after each evaluation of a run, float64 [evaluations]; the last where it ended before."""
    columns = chunks.read([chunk.path for chunk in chunks.listing(run / "mappings")])
    speedup = np.array(columns["speedup"], np.float64)
    speedup[np.array(columns["status"]) != Status.OK] = 0.0
    best = np.maximum.accumulate(speedup)[:evaluations]
    return np.pad(best, (0, evaluations - len(best)), mode="edge")


def _over_graphs(curves: NDArray[np.float64]) -> NDArray[np.float64]:
    """Geometric means over graphs of [S, G, E] -> [S, E]; of one graph its own values."""
    if curves.shape[1] == 1:
        return curves[:, 0]
    return geometric_mean(curves, axis=1)


def samples_to(curve: NDArray[np.float64], goal: float) -> int | None:
    """How many evaluations a mean curve [E] needs to come to a goal (to rounding); None where it never does."""
    reached = np.flatnonzero(curve >= goal * (1 - 1e-12))
    return int(reached[0]) + 1 if len(reached) else None


def _against(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> dict[str, float] | None:
    """The mean difference of logarithms of final speedups [seeds, graphs] with its interval, and on how many units
    it is above and below by more than `LEVEL`. Units are graphs (means over seeds); of one graph, runs."""
    ratio = np.log(np.maximum(ours, FAILED) / np.maximum(theirs, FAILED))
    units = ratio.mean(axis=0) if ratio.shape[1] > 1 else ratio[:, 0]
    found = mean_interval(units.tolist())
    if found is None:
        return None
    return {**found, "above": int((units > LEVEL).sum()), "below": int((units < -LEVEL).sum())}


def _over_random(graph: str, where: str) -> float | None:
    """The random partition's cost over the greedy heuristic's; None where none was found that runs."""
    greedy = problem_of(graph, where).baseline.cost
    try:
        return float(problem_of(graph, where, baseline="random").baseline.cost / greedy)
    except InputError:  # none of its tries runs on the device
        return None


def draw(plan: Plan, results: Mapping[str, Any], out: Path) -> None:
    """Figures 5 and 6."""
    from papers.mcm.figures import sample_figure

    titles = {
        ON_TEST: f"{len(plan.test)} test graphs, analytical model (geometric mean)",
        ON_HELD_OUT: f"{plan.held_out}, device model",
    }
    for where, title in titles.items():
        curves = {label: np.array(own["curve"]) for label, own in results[where]["variants"].items()}
        save_figure(sample_figure(curves, title), out / "figures" / f"{where}.png")


def models(plan: Plan, out: Path) -> dict[str, Any]:
    """Figure 7: both models' costs of random partitions."""
    from papers.mcm.figures import agreement_figure

    problem = problem_of(plan.held_out, ON_TEST)
    found, partitions = compare_models(problem, plan.samples)
    figure = agreement_figure(found, f"{problem.about.workload} on {problem.about.chip}")
    save_figure(figure, out / "figures" / "models.png")
    return {"partitions": partitions, "invalid": found.invalid, "pearson": found.pearson}


def compare_models(problem: McmProblem, samples: int) -> tuple[Agreement, int]:
    """What both models say of the partitions that SAMPLE draws from uniform probabilities with so many keys, and how
    many keys got one."""
    from hwsim.mcm.cost import costs
    from hwsim.mcm.device import run
    from papers.mcm.figures import agreement

    even = np.ones((len(problem.space.nodes), problem.package.chips), np.float32)
    rows = []
    for first in range(0, samples, BATCH):
        keys = np.arange(first, min(samples, first + BATCH), dtype=np.uint64)
        answer = problem.solver.sample(even, keys, None, problem.config.backtracks)
        rows.append(answer.assignment[answer.valid])
    places = np.concatenate(rows)
    device = run(problem.device, places)
    measured = np.where(device.excess_bytes > 0, np.nan, device.cost_s)
    return agreement(costs(problem.tables, places), measured), len(places)
