"""The paper's claims about EGRL, each held against what was measured here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from egrl.reproduce.egrl.published import PUBLISHED
from egrl.reproduce.egrl.wording import title_of, yes

Results = Mapping[str, Any]


def claims(results: Results) -> str:
    lines = [
        "## What holds and what does not",
        "",
        "| claim | published | here | holds here |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {claim} | {published} | {ours} | {verdict} |"
        for claim, published, ours, verdict in _verdicts(results)
    ]
    return "\n".join(lines)


def _verdicts(results: Results) -> Iterator[tuple[str, str, str, str]]:
    for entry in results["cold"]["workloads"]:
        rows = {row["method"]: row for row in entry["rows"]}
        yield from _orderings(entry["workload"], rows)
    yield from _transfer_claims(results)
    for workload, numbers in results["umap"].items():
        distances, name = numbers["distances"], title_of(workload)
        spread, inside = distances["spread"], distances["spread_in_a_run"]
        yield (
            f"{name}: best mappings are separable from compiler-competitive ones (Figure 5)",
            "generally",
            f"silhouette {distances['separation']:.2f}",
            yes(distances["separation"] > 0.25, "weakly" if distances["separation"] > 0.05 else "no"),
        )
        yield (
            f"{name}: best mappings are more alike than competitive ones (Figure 5)",
            "markedly",
            f"mean distance {spread['best']:.2f} against {spread['competitive']:.2f}; within a run"
            f" {inside['best']:.2f} against {inside['competitive']:.2f}",
            yes(spread["best"] < spread["competitive"]),
        )
        near, mean = distances["nearest_to_compiler"], distances["to_compiler"]
        holds = [near["competitive"] < near["best"], mean["competitive"] < mean["best"]]
        yield (
            f"{name}: the compiler's map lies among the competitive ones (Figure 5)",
            "yes",
            f"nearest at {near['competitive']:.2f} (of the best: {near['best']:.2f}), on average"
            f" {mean['competitive']:.2f} ({mean['best']:.2f})",
            yes(all(holds), "by its nearest only" if holds[0] else "no"),
        )
    for workload, numbers in results["bands"].items():
        yield from _band_claims(title_of(workload), numbers)


def _orderings(workload: str, rows: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    published, name = PUBLISHED.get(workload, {}), title_of(workload)

    def both(a: str, b: str) -> tuple[str, str]:
        told = f"{published[a]:.2f} against {published[b]:.2f}" if a in published and b in published else "-"
        return told, f"{rows[a]['mean']:.4f} against {rows[b]['mean']:.4f}"

    for other, claim in (
        ("ea", "EGRL beats EA (Figure 3)"),
        ("pg", "EGRL beats pg"),
        ("greedy-dp", "EGRL beats greedy-dp"),
    ):
        interval = rows[other]["against"]
        verdict = yes(rows["egrl"]["mean"] > rows[other]["mean"])
        if interval is None or interval["low"] <= 0 <= interval["high"]:
            verdict = "equal (the 95% interval of the difference holds 0)"
        yield f"{name}: {claim}", *both("egrl", other), verdict
    for method, claim, above in (
        ("egrl", "EGRL beats the compiler", True),
        ("pg", "PG alone stays below the compiler", False),
        ("greedy-dp", "greedy DP beats the compiler", published.get("greedy-dp", 1.0) > 1),
    ):
        told = f"{published[method]:.2f}" if method in published else "-"
        if method == "greedy-dp" and not above:
            claim = "greedy DP stays below the compiler"
        yield (
            f"{name}: {claim}",
            told,
            f"{rows[method]['mean']:.4f}",
            yes((rows[method]["mean"] > 1) == above),
        )


def _transfer_claims(results: Results) -> Iterator[tuple[str, str, str, str]]:
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
            yes(len(above) == len(others), "on some" if above else "no"),
        )
        fallen = sum(at_end[name] < best[name] - 1e-9 for name in best)
        yield (
            f"policies of {each['policies']} overfit: zero-shot falls late in training (Figure 4)",
            "yes",
            f"on {fallen} of {len(others)} the end is below the best moment",
            yes(fallen > len(others) / 2, "on some" if fallen else "no"),
        )
    rows = sorted(results["pretraining"]["rows"], key=lambda row: -row["mean"])
    best_alone = next(row for row in rows if not row["policies"].startswith("pre-trained"))
    own = next(row for row in rows if row["policies"].startswith("pre-trained"))
    yield (
        "a pre-trained policy beats every single-workload policy on held-out workloads",
        "- (left to others)",
        f"{own['mean']:.4f} against at most {best_alone['mean']:.4f} ({best_alone['policies']})",
        yes(own["mean"] > best_alone["mean"]),
    )


def _band_claims(name: str, numbers: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    for head in numbers["heads"]:
        before, after = head["compiler"], head["best"]
        slow = head["memories"][0]
        yield (
            f"{name}, {head['head']}s: fewer bytes in {slow} (Figure 6)",
            "yes",
            f"{before['byte_share'][0]:.0%} to {after['byte_share'][0]:.0%}",
            yes(after["byte_share"][0] < before["byte_share"][0] - 0.005, "as before")
            if after["byte_share"][0] <= before["byte_share"][0] + 0.005
            else "no",
        )
        yield (
            f"{name}, {head['head']}s: neighbours share a memory more often (Figure 6)",
            "yes",
            f"{before['contiguity']:.0%} to {after['contiguity']:.0%}",
            yes(after["contiguity"] > before["contiguity"]),
        )
