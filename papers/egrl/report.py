"""What the report of `egrl reproduce egrl` says beside results.json: the paper's claims, each with a verdict.

    python -m papers.egrl.report docs/results/data/egrl.json.xz

prints the report of results that ship. The sentences are in `report.md.j2`; published numbers in `published.py`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

from analysis.intervals import interval_of
from egrl.reproduction import interval_text, mean_interval, paired, render, shipped, turned, verdict
from papers.egrl.published import NAMES, PUBLISHED
from workloads.text import optional

Results = Mapping[str, Any]
CLEARLY = 0.95
"""Mappings are more alike than others if their mean distance is at most this multiple of the others'."""
LEAST = 1e-3
"""Speedups below count as this one."""
FIFTH = 5
"""What is late in training: the last of so many parts of the saved policies; it is held against the middle one."""
Claim = tuple[str, str, str, str]
"""What is claimed, what was published, what came out here, whether it holds."""


def report(results: Results) -> str:
    """The report as Markdown; figures are beside it in figures/."""
    return render(
        Path(__file__).with_name("report.md.j2"),
        **results,
        PUBLISHED=PUBLISHED,
        title=_title,
        plus_minus=_plus_minus,
        claims=list(_claims(results)),
        printed_rows={
            entry["workload"]: {row["method"]: row for row in entry["rows"]}
            for entry in results["printed"]["workloads"]
        },
    )


def _title(workload: str) -> str:
    """A workload as the paper writes it."""
    return NAMES.get(workload, workload)


def _plus_minus(row: Mapping[str, Any]) -> str:
    """A mean with the sample's deviation, where there is one."""
    deviation = row["deviation"]
    return f"{row['mean']:.4f}" + ("" if deviation is None else f" ± {deviation:.4f}")


def _yes(holds: bool, otherwise: str = "no") -> str:
    """A verdict in one word."""
    return "yes" if holds else otherwise


def _claims(results: Results) -> Iterator[Claim]:
    for entry in results["cold"]["workloads"]:
        rows = {row["method"]: row for row in entry["rows"]}
        yield from _orderings(entry["workload"], rows)
    yield from _transfer_claims(results)
    for workload, numbers in results["umap"].items():
        distances, name = numbers["distances"], _title(workload)
        inside, apart = distances["spread_in_a_run"], distances["spread_between_runs"]
        yield (
            f"{name}: best mappings are separable from compiler-competitive ones (Figure 5)",
            "generally",
            f"silhouette {distances['separation']:.2f}",
            _yes(distances["separation"] > 0.25, "weakly" if distances["separation"] > 0.05 else "no"),
        )
        between, within = (
            " against ".join(optional(each[group], ".2f") for group in ("best", "competitive"))
            for each in (apart, inside)
        )
        yield (
            f"{name}: best mappings are more alike than competitive ones (Figure 5)",
            "markedly",
            f"mean distance of two from different runs {between}; from one run, where they are of one lineage,"
            f" {within}",
            _alike(apart["best"], apart["competitive"]),
        )
        near, mean = distances["nearest_to_compiler"], distances["to_compiler"]
        holds = [near["competitive"] < near["best"], mean["competitive"] < mean["best"]]
        yield (
            f"{name}: the compiler's map lies among the competitive ones (Figure 5)",
            "yes",
            f"nearest at {near['competitive']:.2f} (of the best: {near['best']:.2f}), on average"
            f" {mean['competitive']:.2f} ({mean['best']:.2f})",
            _yes(all(holds), "by its nearest only" if holds[0] else "no"),
        )
    for workload, numbers in results["bands"].items():
        yield from _band_claims(_title(workload), numbers)


def _alike(best: float | None, competitive: float | None) -> str:
    """Whether the best mappings lie closer to one another; None: there are not two from different runs."""
    if best is None or competitive is None:
        return "not tested"
    if best > competitive / CLEARLY:
        return "no"
    return _yes(best < CLEARLY * competitive, "no significant difference")


def _orderings(workload: str, rows: Mapping[str, Any]) -> Iterator[Claim]:
    published, name = PUBLISHED.get(workload, {}), _title(workload)

    def both(a: str, b: str) -> tuple[str, str]:
        figures = (
            f"{published[a]:.2f} against {published[b]:.2f}" if a in published and b in published else "-"
        )
        return figures, f"{rows[a]['mean']:.4f} against {rows[b]['mean']:.4f}"

    for other, claim in (
        ("ea", "EGRL beats EA (Figure 3)"),
        ("pg", "EGRL beats pg"),
        ("greedy-dp", "EGRL beats greedy-dp"),
    ):
        interval = rows[other]["against"]
        figures, here = both("egrl", other)
        # The interval is of the rival's speedup less EGRL's.
        yield (
            f"{name}: {claim}",
            figures,
            f"{here}{interval_text(turned(interval))}",
            verdict(turned(interval), rows[other]["mean"]),
        )
    for method, claim, above in (
        ("egrl", "EGRL beats the compiler", True),
        ("pg", "PG alone stays below the compiler", False),
        ("greedy-dp", "greedy DP beats the compiler", published.get("greedy-dp", 1.0) > 1),
    ):
        figures = f"{published[method]:.2f}" if method in published else "-"
        if method == "greedy-dp" and not above:
            claim = "greedy DP stays below the compiler"
        over = _over_compiler(rows[method])
        yield (
            f"{name}: {claim}",
            figures,
            f"{rows[method]['mean']:.4f}{interval_text(over)}",
            verdict(over, sign=1 if above else -1),
        )


def _over_compiler(row: Mapping[str, Any]) -> Mapping[str, float] | None:
    """How far a method's mean speedup is above 1, with its interval over runs; None for one run."""
    if row["deviation"] is None:
        return None
    return asdict(interval_of(row["mean"] - 1, row["deviation"], row["runs"]))


def _transfer_claims(results: Results) -> Iterator[Claim]:
    """Of each run's policies on workloads that they were not trained on, which are the units of the intervals."""
    for each in results["transfer"]["transfers"]:
        others = [k for k, name in enumerate(each["targets"]) if name not in each["trained_on"]]
        log = [[math.log(max(speedup, LEAST)) for speedup in each["speedup"][k]] for k in others]
        late, middle = [fmean(x[-_fifth(x) :]) for x in log], [fmean(x[_middle(x)]) for x in log]
        over = mean_interval(late)
        yield (
            f"policies of {each['policies']} beat the compiler on other workloads (Figure 4)",
            "yes",
            f"late in training on {sum(x > 0 for x in late)} of {len(others)}; mean log speedup{interval_text(over)}",
            verdict(over),
        )
        fallen = paired(late, middle)
        yield (
            f"policies of {each['policies']} overfit: zero-shot falls late in training (Figure 4)",
            "yes",
            f"late against the middle of training, mean log ratio{interval_text(fallen)}",
            verdict(fallen, sign=-1),
        )
    rows = sorted(results["pretraining"]["rows"], key=lambda row: -row["mean"])
    best_alone = next(row for row in rows if not row["policies"].startswith("pre-trained"))
    own = next(row for row in rows if row["policies"].startswith("pre-trained"))
    ours, theirs = ([math.log(max(x, LEAST)) for x in row["speedup"]] for row in (own, best_alone))
    over = paired(ours, theirs)
    yield (
        "a pre-trained policy beats the best single-workload policy on held-out workloads",
        "- (left to others)",
        f"{own['mean']:.4f} against {best_alone['mean']:.4f} ({best_alone['policies']}); mean log"
        f" ratio{interval_text(over)}",
        verdict(over),
    )


def _fifth(moments: Sequence[float]) -> int:
    return max(1, len(moments) // FIFTH)


def _middle(moments: Sequence[float]) -> slice:
    """The middle fifth."""
    first = (len(moments) - _fifth(moments)) // 2
    return slice(first, first + _fifth(moments))


def _band_claims(name: str, numbers: Mapping[str, Any]) -> Iterator[Claim]:
    for head in numbers["heads"]:
        before, after = head["compiler"], head["best"]
        slow = head["memories"][0]
        yield (
            f"{name}, {head['head']}s: fewer bytes in {slow} (Figure 6)",
            "yes",
            f"{before['byte_share'][0]:.0%} to {after['byte_share'][0]:.0%}",
            _yes(after["byte_share"][0] < before["byte_share"][0] - 0.005, "as before")
            if after["byte_share"][0] <= before["byte_share"][0] + 0.005
            else "no",
        )
        yield (
            f"{name}, {head['head']}s: neighbours share a memory more often (Figure 6)",
            "yes",
            f"{before['contiguity']:.0%} to {after['contiguity']:.0%}",
            _yes(after["contiguity"] > before["contiguity"]),
        )


if __name__ == "__main__":
    print(report(shipped(Path(sys.argv[1]))))
