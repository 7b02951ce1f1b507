"""The MMapGame's experiments: methods on four programs in the same seconds, beside the heuristic and the bound.

Source: MMapGame paper, section 5 (Table 2, Figure 5) and appendix B.

Deviations (the report says them, too): the programs are this package's own; the latency is a simulated device's;
seconds are those of one thread of this machine, not hours of the paper's hardware.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from egrl import atomic, comparison_report, problems
from egrl.past_run import PastRun
from egrl.reproduce.folder import remember, save_figure
from egrl.stopping import Interrupted

Say = Callable[[str], None]
STARTING_S = 8.0
"""Seconds of a run that are not its search."""


@dataclass(frozen=True)
class Plan:
    """What is run.

    Attributes:
        programs: of Table 2.
        methods: each in the same seconds; `es` and `random` are the paper's rivals.
        seconds: of searching, a run.
        seeds: of each run.
        settings: as `egrl compare --set` takes them. Evaluations are cheap here, so that EGRL's learner takes fewer
            steps; one random network may choose the same action everywhere, whatever little is added to its weights,
            so that ES begins with the best of several.
        bound_seconds: limit of each upper bound.
    """

    programs: tuple[str, ...] = (
        "alexnet_train_batch_32",
        "wavenet_coherent_batch32",
        "alphatensor",
        "tensor2tensor_transformer_bf16",
    )
    methods: tuple[str, ...] = ("egrl", "ea", "es", "random")
    seconds: float = 120.0
    seeds: int = 3
    settings: tuple[str, ...] = ("egrl.learner.nodes=40", "es.scouts=20")
    bound_seconds: float = 60.0

    @staticmethod
    def quick() -> Plan:
        """Two programs, briefly: it shows that and how it works, not what it reaches."""
        return replace(
            Plan(),
            programs=("dlrm_inference", "alexnet_train_batch_32"),
            methods=("ea", "es", "random"),
            seconds=10.0,
            seeds=2,
            settings=("es.scouts=20",),
            bound_seconds=10.0,
        )


def seconds(plan: Plan, workers: int) -> float:
    """About how long it takes."""
    runs = len(plan.programs) * len(plan.methods) * plan.seeds
    return runs * (plan.seconds + STARTING_S) / workers + len(plan.programs) * plan.bound_seconds


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
    options = {"problem": "mmap", "evals": None, "seconds": plan.seconds, "chip": "", "start": "cold"}
    compared = comparison_report.compare(
        plan.programs,
        plan.methods,
        plan.seeds,
        out / "table2",
        {**options, "settings": plan.settings, "preset": ""},
        workers,
        say,
    )
    if compared is None:
        raise Interrupted(out, None, again="the same command goes on")
    comparison_report.check(compared)
    results: dict[str, Any] = {"plan": asdict(plan), "programs": {}}
    for program in plan.programs:
        say(f"bounding {program}")
        results["programs"][program] = _program(plan, program, out)
    _draw_rewards(plan, results, out, figures / "rewards.png")
    atomic.write(out / "results.json", json.dumps(results, indent=1) + "\n")
    from egrl.reproduce.mmap_report import report

    path = out / "report.md"
    atomic.write(path, report(results))
    return path


def _runs(plan: Plan, program: str, method: str, out: Path) -> list[PastRun]:
    folder = out / "table2" / program
    return [PastRun.read(folder / f"{method}-s{seed}") for seed in range(plan.seeds)]


def _program(plan: Plan, program: str, out: Path) -> dict[str, Any]:
    """What all methods, the heuristic and the bound say of one program."""
    from hwsim.mmap.players import best_greedy
    from hwsim.mmap.problem import MmapProblem

    definition = problems.find("mmap").load()
    problem = definition.build(program, definition.chips()[0], definition.config())
    assert isinstance(problem, MmapProblem)
    nothing_random = np.zeros(1, np.uint64)
    demonstration = problem.evaluate(problem.baseline.mapping[None], nothing_random)
    greedy = problem.evaluate(best_greedy(problem.game)[None, :, None], nothing_random)
    bound = problem.reward_bound(plan.bound_seconds)
    assert bound is not None
    found: dict[str, Any] = {
        "buffers": len(problem.nodes),
        "bound": {"reward": bound.reward, "proof": bound.proof, "seconds": bound.seconds},
        "heuristic": {
            "cost": problem.baseline.cost,
            "reward": problem.heuristic_return,
            "projected_reward": float(demonstration.reward[0]),
            "projected_cost": float(demonstration.cost[0]),
        },
        "greedy": {"reward": float(greedy.reward[0]), "speedup": float(greedy.speedup[0])},
        "methods": {},
    }
    for method in plan.methods:
        summaries = [run.summary for run in _runs(plan, program, method, out)]
        best = [summary["best"] for summary in summaries]
        found["methods"][method] = {
            "reward": [entry["reward"] for entry in best],
            "cost": [entry["cost"] for entry in best],
            "speedup": [entry["speedup"] for entry in best],
            "evaluations": [summary["evaluations"] for summary in summaries],
            "source": [entry["source"] for entry in best],
        }
    return found


def _draw_rewards(plan: Plan, results: Mapping[str, Any], out: Path, path: Path) -> None:
    """Figure 5."""
    from analysis.rewards import Panel, RewardCurve, reward_figure

    panels = []
    for program in plan.programs:
        curves = []
        for method in plan.methods:
            for run in _runs(plan, program, method, out):
                at, reward = run.metrics("seconds", "best_reward")
                curves.append(RewardCurve(method, at, reward))
        entry = results["programs"][program]
        levels = {"heuristic": entry["heuristic"]["reward"], "upper bound": entry["bound"]["reward"]}
        panels.append(Panel(f"{program} ({entry['buffers']:,} buffers)", curves, levels))
    save_figure(reward_figure(panels), path)
