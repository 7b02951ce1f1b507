"""The MMapGame's experiments: the agent and its rivals, what each of its parts is worth, and what latency says.

Source: MMapGame paper, section 5 (Tables 2 to 5, Figures 5 to 8) and appendix B (Figure 10).

Deviations (the report says them, too): the programs are this package's own; the latency is a simulated device's;
budgets are minutes of this machine, not a day of the paper's hardware. One agent for several programs is not in the
paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from egrl.reproduction import Paper, Say, open_folder, run_comparison, write_report
from egrl_muzero.paper import numbers
from egrl_muzero.paper.plan import (
    ABLATIONS,
    AGENT,
    OTHERS,
    STARTING_S,
    UNREVISED,
    Plan,
    folder_of,
)
from egrl_muzero.paper.report import report
from egrl_muzero.paper.several import run_shared


def seconds(plan: Plan, jobs: int) -> float:
    """About how long it takes."""
    long = [len(plan.programs) * len(plan.methods) * plan.seeds, len(plan.others) * plan.unrevised_seeds]
    long += [plan.seeds] * (1 + len(ABLATIONS))

    def waves(runs: int) -> int:
        return -(-runs // jobs)

    searched = sum(waves(runs) for runs in long) * (plan.seconds + STARTING_S)
    searched += waves(len(plan.suite)) * (plan.suite_seconds + STARTING_S)
    searched += 2 * waves(len(plan.held_out)) * (plan.held_out_seconds + STARTING_S)
    return searched + len(plan.programs) * plan.bound_seconds + plan.shared_seconds + STARTING_S


def reproduce(plan: Plan, out: Path, jobs: int, say: Say, workers: int = 1) -> Path:
    """Run what is missing in `out`, draw the figures, and write report.md. Returns its path.

    `jobs` runs at once, with so many `workers` each.

    Raises:
        InputError: the folder holds something else.
        Interrupted: the user stopped it; the same call goes on.
        RunFailure: a run failed.
    """
    open_folder(plan, out)
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
        run_comparison(
            programs,
            methods,
            seeds,
            out / folder,
            jobs,
            lambda line: say(f"{folder}: {line}"),
            problem="mmap",
            seconds=seconds,
            start="cold",
            settings=settings,
            threads=plan.threads,
            init=init,
            workers=workers,
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
        results["programs"][program] = numbers.program(plan, program, out)
    numbers.draw_rewards(plan, results, out)
    results["ablation"] = numbers.ablation(plan, results, out)
    results["suite"] = numbers.suite(plan, out)
    results["correlation"] = numbers.correlation(plan, results["suite"], out)
    results["layout"] = numbers.layout(plan, out)
    results["shared"] = run_shared(plan, out, run, say, workers)
    return write_report(results, out, report)


PAPER = Paper(lambda quick: Plan.quick() if quick else Plan(), seconds, reproduce)
"""What `egrl reproduce` finds."""
