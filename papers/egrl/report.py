"""What the report of `egrl reproduce egrl` says beside results.json: the paper's claims, each with a verdict.

The sentences are in `report.md.j2`; published numbers in `published.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from papers.egrl.published import NAMES, PUBLISHED
from papers.shared import render

Results = Mapping[str, Any]
Claim = tuple[str, str, str, str]
"""What is claimed, what was published, what came out here, whether it holds."""


def report(results: Results) -> str:
    """The report as Markdown; figures are beside it in figures/."""
    return render(
        "egrl",
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
        spread, inside = distances["spread"], distances["spread_in_a_run"]
        yield (
            f"{name}: best mappings are separable from compiler-competitive ones (Figure 5)",
            "generally",
            f"silhouette {distances['separation']:.2f}",
            _yes(distances["separation"] > 0.25, "weakly" if distances["separation"] > 0.05 else "no"),
        )
        yield (
            f"{name}: best mappings are more alike than competitive ones (Figure 5)",
            "markedly",
            f"mean distance {spread['best']:.2f} against {spread['competitive']:.2f}; within a run"
            f" {inside['best']:.2f} against {inside['competitive']:.2f}",
            _yes(spread["best"] < spread["competitive"]),
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
        verdict = _yes(rows["egrl"]["mean"] > rows[other]["mean"])
        if interval is None or interval["low"] <= 0 <= interval["high"]:
            verdict = "equal (the 95% interval of the difference holds 0)"
        yield f"{name}: {claim}", *both("egrl", other), verdict
    for method, claim, above in (
        ("egrl", "EGRL beats the compiler", True),
        ("pg", "PG alone stays below the compiler", False),
        ("greedy-dp", "greedy DP beats the compiler", published.get("greedy-dp", 1.0) > 1),
    ):
        figures = f"{published[method]:.2f}" if method in published else "-"
        if method == "greedy-dp" and not above:
            claim = "greedy DP stays below the compiler"
        yield (
            f"{name}: {claim}",
            figures,
            f"{rows[method]['mean']:.4f}",
            _yes((rows[method]["mean"] > 1) == above),
        )


def _transfer_claims(results: Results) -> Iterator[Claim]:
    for each in results["transfer"]["transfers"]:
        others = [k for k, name in enumerate(each["targets"]) if name not in each["trained_on"]]
        at_end = {each["targets"][k]: each["speedup"][k][-1] for k in others}
        best = {each["targets"][k]: max(each["speedup"][k]) for k in others}
        above = [name for name, speedup in at_end.items() if speedup > 1]
        yield (
            f"policies of {each['policies']} beat the compiler on other workloads (Figure 4)",
            "yes",
            f"at the end on {len(above)} of {len(others)}, at its best moment on"
            f" {sum(value > 1 for value in best.values())}",
            _yes(len(above) == len(others), "on some" if above else "no"),
        )
        fallen = sum(at_end[name] < best[name] - 1e-9 for name in best)
        yield (
            f"policies of {each['policies']} overfit: zero-shot falls late in training (Figure 4)",
            "yes",
            f"on {fallen} of {len(others)} the end is below the best moment",
            _yes(fallen > len(others) / 2, "on some" if fallen else "no"),
        )
    rows = sorted(results["pretraining"]["rows"], key=lambda row: -row["mean"])
    best_alone = next(row for row in rows if not row["policies"].startswith("pre-trained"))
    own = next(row for row in rows if row["policies"].startswith("pre-trained"))
    yield (
        "a pre-trained policy beats every single-workload policy on held-out workloads",
        "- (left to others)",
        f"{own['mean']:.4f} against at most {best_alone['mean']:.4f} ({best_alone['policies']})",
        _yes(own["mean"] > best_alone["mean"]),
    )


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
