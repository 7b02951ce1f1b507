"""The tables of runs that were kept: rewards (Table 2), parts of the agent (Figure 7), speedups (Tables 3 and 4).

    python -m egrl_muzero.paper.kept plugins/muzero/docs/results/data/mmap-runs.tar.xz

The runs are of an earlier version; the rest of the report needs files that were not kept.
"""

from __future__ import annotations

import json
import sys
import tarfile
from collections.abc import Iterator, Sequence
from math import log
from pathlib import Path
from statistics import fmean, geometric_mean

from egrl.reproduction import interval_cell, mean_interval, paired, plus_minus
from egrl_muzero.paper.plan import ABLATIONS, AGENT, FULL, UNREVISED, Plan, folder_of
from workloads.text import table_row

Best = dict[str, float]
"""What a run's champion reached: reward, cost, speedup."""


def read(archive: Path) -> dict[tuple[str, str, str], list[Best]]:
    """The champions of runs by folder, program and method, in the order of their seeds."""
    found: dict[tuple[str, str, str], list[Best]] = {}
    with tarfile.open(archive) as opened:
        for name in sorted(opened.getnames()):
            if name.endswith("summary.json"):
                *folder, program, run, _ = name.split("/")
                file = opened.extractfile(name)
                assert file is not None
                found.setdefault(("/".join(folder), program, run.rpartition("-s")[0]), []).append(
                    json.load(file)["best"]
                )
    return found


def tables(archive: Path) -> Iterator[str]:
    """Rows of Markdown; a program of Table 2 is a column. Differences are between runs of equal seeds."""
    runs, plan = read(archive), Plan()

    def of(label: str, program: str, key: str = "reward") -> list[float]:
        folder = plan.unrevised(program)[0] if label == UNREVISED else "table2"
        method = AGENT if label in (FULL, UNREVISED) else label
        return [best[key] for best in runs.get((folder, program, method), [])]

    titles = {FULL: FULL, UNREVISED: UNREVISED, "es": "`es`", "random": "`random`"}
    programs = [f"`{program}`" for program in plan.programs]
    yield table_row(["reward", *programs])
    for label, title in titles.items():
        yield table_row([title, *(plus_minus(of(label, program)) for program in plan.programs)])
    yield table_row(["reward of the full agent over", *programs])
    for label in (UNREVISED, "es", "random"):
        yield table_row([titles[label], *(_over(of(FULL, name), of(label, name)) for name in plan.programs)])
    yield table_row(["speedup", *programs])
    for label, title in titles.items():
        yield table_row([title, *(f"{fmean(of(label, name, 'speedup')):.4f}" for name in plan.programs)])
    yield table_row([f"reward on `{plan.ablated}`", "", "full agent over it", f"{UNREVISED} over it"])
    full, unrevised = of(FULL, plan.ablated), of(UNREVISED, plan.ablated)
    for part in ABLATIONS:
        rewards = [best["reward"] for best in runs[folder_of(part), plan.ablated, AGENT]]
        yield table_row([part, plus_minus(rewards), _over(full, rewards), _over(unrevised, rewards)])
    speedups = [best[0]["speedup"] for (folder, *_), best in runs.items() if folder == "suite"]
    faster = sum(speedup > 1 for speedup in speedups)
    yield (
        f"{len(speedups)} programs: speedup {geometric_mean(speedups):.4f} in the geometric mean, of the logarithm"
        f" {interval_cell(mean_interval([log(speedup) for speedup in speedups]))}; {fmean(speedups):.4f} in the"
        f" arithmetic mean, above 1 on {faster}"
    )


def _over(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """The mean difference and its interval, as far as both have runs; "" for one."""
    count = min(len(ours), len(theirs))
    return interval_cell(paired(ours[:count], theirs[:count]))


if __name__ == "__main__":
    print("\n".join(tables(Path(sys.argv[1]))))
