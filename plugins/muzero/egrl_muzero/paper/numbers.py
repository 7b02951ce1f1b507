"""What the runs of `egrl reproduce mmap` say, as numbers and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from egrl.problems import find_problem
from egrl.reproduction import save_figure
from egrl.runs.past_run import PastRun
from egrl_muzero.paper.plan import ABLATIONS, AGENT, FULL, REVISE, UNREVISED, Plan, folder_of
from workloads.load import describe

if TYPE_CHECKING:
    from hwsim.mmap.problem import MmapProblem

PLAYED = ("returned", "greedy_returned", "games", "revisions")
"""Of the agent at the end of a run: moving means of what its games returned, with noise and without; how many it played
to their end, and how many it revised."""
STAGES = 10
"""Layouts of a run in Figure 6."""


def problem_of(name: str) -> MmapProblem:
    """A program on the problem's own chip."""
    from hwsim.mmap.problem import MmapProblem

    definition = find_problem("mmap").load()
    problem = definition.build(name, definition.chips()[0], definition.config())
    assert isinstance(problem, MmapProblem)
    return problem


def runs(folder: Path, program: str, method: str, seeds: int) -> list[PastRun]:
    """The runs of a comparison in a folder."""
    return [PastRun.read(folder / program / f"{method}-s{seed}") for seed in range(seeds)]


def summed(given: Sequence[PastRun]) -> dict[str, list[Any]]:
    """What runs reached, a value a run; of the agent also `PLAYED`, None where it ended no such game."""
    summaries = [run.summary for run in given]
    best = [summary["best"] for summary in summaries]
    found = {name: [entry[name] for entry in best] for name in ("reward", "cost", "speedup", "source")}
    found["evaluations"] = [summary["evaluations"] for summary in summaries]
    for name in {AGENT: PLAYED, REVISE: ("revisions",)}.get(summaries[0]["method"], ()):
        ends = [run.metrics(name)[0][-1] for run in given]
        found[name] = [float(end) if np.isfinite(end) else None for end in ends]
    return found


def players(problem: MmapProblem) -> dict[str, Any]:
    """What the heuristic and the greedy player make of a program."""
    from hwsim.mmap.players import best_greedy

    nothing_random = np.zeros(1, np.uint64)
    demonstration = problem.evaluate(problem.baseline.mapping[None], nothing_random)
    greedy = problem.evaluate(best_greedy(problem.game)[None, :, None], nothing_random)
    return {
        "buffers": len(problem.space.nodes),
        "heuristic": {
            "cost": problem.baseline.cost,
            "reward": problem.heuristic_return,
            "projected_reward": float(demonstration.reward[0]),
            "projected_cost": float(demonstration.cost[0]),
        },
        "greedy": {"reward": float(greedy.reward[0]), "speedup": float(greedy.speedup[0])},
    }


def program(plan: Plan, name: str, out: Path) -> dict[str, Any]:
    """What all methods, the heuristic, the greedy player and the bound say of one program (Table 2)."""
    problem = problem_of(name)
    bound = problem.bound(plan.bound_seconds)
    return {
        **players(problem),
        "bound": {"reward": bound.reward, "proof": bound.proof, "seconds": bound.seconds},
        "methods": {label: summed(given) for label, given in rivals(plan, name, out).items()},
    }


def rivals(plan: Plan, name: str, out: Path) -> dict[str, list[PastRun]]:
    """The runs on a program of Table 2: of its methods, and of the agent without revisions."""
    given = {method: runs(out / "table2", name, method, plan.seeds) for method in plan.methods}
    folder, seeds = plan.unrevised(name)
    unrevised = {UNREVISED: runs(out / folder, name, AGENT, seeds)}
    return {AGENT: given[AGENT]} | unrevised | given


def draw_rewards(plan: Plan, results: Mapping[str, Any], out: Path) -> None:
    """Figure 5."""
    panels = [panel(results["programs"][name], name, rivals(plan, name, out)) for name in plan.programs]
    save_rewards(panels, out / "figures" / "rewards.png")


def panel(entry: Mapping[str, Any], name: str, given: Mapping[str, Sequence[PastRun]]) -> Any:
    """Curves of runs by their labels, beside the heuristic and, where it is known, the bound."""
    from egrl_muzero.paper.rewards import Panel, RewardCurve

    curves = [
        RewardCurve(label, *run.metrics("seconds", "best_reward"))
        for label, repeated in given.items()
        for run in repeated
    ]
    levels = {"heuristic": entry["heuristic"]["reward"]}
    if "bound" in entry:
        levels["upper bound"] = entry["bound"]["reward"]
    return Panel(f"{name} ({entry['buffers']:,} buffers)", curves, levels)


def save_rewards(panels: Sequence[Any], path: Path) -> None:
    """Write the figure of some panels."""
    from egrl_muzero.paper.rewards import reward_figure

    save_figure(reward_figure(panels), path)


def ablation(plan: Plan, results: Mapping[str, Any], out: Path) -> dict[str, Any]:
    """Figure 7."""
    given = {FULL: runs(out / "table2", plan.ablated, AGENT, plan.seeds)}
    given |= {
        part: runs(out / folder_of(part), plan.ablated, AGENT, plan.seeds) for part in (UNREVISED, *ABLATIONS)
    }
    shown = panel(results["programs"][plan.ablated], plan.ablated, given)
    save_rewards([shown], out / "figures" / "ablation.png")
    return {label: summed(repeated) for label, repeated in given.items()}


def suite(plan: Plan, out: Path) -> dict[str, Any]:
    """Tables 3 and 4, Figure 10: the agent's speedup on every program, from the largest to the smallest."""
    from egrl_muzero.paper.speedups import speedup_figure
    from hwsim.mmap.problem import MmapProblem

    found = {}
    for name in plan.suite:
        run = PastRun.read(out / "suite" / name / f"{AGENT}-s0")
        found[name] = {key: values[0] for key, values in summed([run]).items()}
        assert isinstance(run.problem, MmapProblem)
        sizes = describe(run.problem.program)
        found[name] |= {key: sizes[key] for key in ("buffers", "alias_groups")}
    ordered = dict(sorted(found.items(), key=lambda entry: -entry[1]["speedup"]))
    speedups = {name: entry["speedup"] for name, entry in ordered.items()}
    save_figure(speedup_figure(speedups, "the heuristic"), out / "figures" / "speedups.png")
    values = list(speedups.values())
    produced = [max(1.0, value) for value in values]
    improved = sum(value > 1.0 for value in values)
    return {
        "programs": ordered,
        "agent": {"mean": fmean(values), "max": max(values), "min": min(values), "improved": improved},
        "prod": {"mean": fmean(produced), "max": max(produced), "min": min(produced), "improved": improved},
    }


def correlation(plan: Plan, suite: Mapping[str, Any], out: Path) -> dict[str, Any]:
    """Table 5 and Figure 6: reward against latency along the runs with the largest and the smallest speedups."""
    from egrl_muzero.paper.speedups import Sample, correlation_figure, pearson, stages

    names = list(suite["programs"])
    most = min(plan.extremes, len(names) // 2 or 1)
    chosen = {"largest": names[:most], "smallest": names[most:][-most:]}
    samples, found = [], {}
    for group, members in chosen.items():
        for name in members:
            told = PastRun.read(out / "suite" / name / f"{AGENT}-s0").evaluations()
            picked = stages(told.reward, told.cost, STAGES)
            reward, cost = told.reward[picked], told.cost[picked]
            speedup = suite["programs"][name]["speedup"]
            samples.append(Sample(f"{name}: {speedup:.3f}x", reward, cost))
            found[name] = {
                "group": group,
                "speedup": speedup,
                "pearson": pearson(reward, cost),
                "evaluation": told.ticket[picked].tolist(),
                "reward": reward.tolist(),
                "cost": cost.tolist(),
            }
    save_figure(correlation_figure(samples), out / "figures" / "correlation.png")
    return found


def layout(plan: Plan, out: Path) -> dict[str, Any]:
    """Figure 8: the layout of the agent's best run beside the heuristic's."""
    from egrl_muzero.mmap import layouts

    given = runs(out / "table2", plan.shown, AGENT, plan.seeds)
    best = max(given, key=lambda run: float(run.summary["best"]["reward"]))
    drawing = layouts.draw([best])
    save_figure(drawing.figure, out / "figures" / "layout.png")
    kept = ("speedup", "buffers", "boxes", "tensors", "come_again", "copies", "copied_bytes", "mean_share")
    return {
        "program": plan.shown,
        "run": best.path.name,
        "highlighted": drawing.numbers["highlighted"],
        "layouts": [{key: entry[key] for key in kept} for entry in drawing.numbers["layouts"]],
    }
