"""The report of `egrl reproduce egrl`: EGRL's figures and claims, the published number beside ours.

Source of the published numbers: EGRL, section 5 (text; the figures themselves have no numbers).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

PUBLISHED: dict[str, dict[str, float]] = {
    "resnet50": {"egrl": 1.28, "ea": 1.06, "greedy-dp": 0.72, "pg": 0.29},
    "resnet101": {"egrl": 1.78, "ea": 1.47, "greedy-dp": 1.27, "pg": 0.23},
    "bert": {"egrl": 1.66, "ea": 1.64, "greedy-dp": 0.67, "pg": 0.21},
}
"""Workload -> method -> mean speedup over the compiler at the end."""
NAMES = {"resnet50": "ResNet-50", "resnet101": "ResNet-101", "bert": "BERT"}

Results = Mapping[str, Any]


def report(results: Results, spent_s: float) -> str:
    """The report as Markdown; figures are beside it in figures/."""
    plan = results["plan"]
    parts = [
        _head(plan, spent_s),
        _claims(results),
        _figure3(results),
        _figure4(results),
        _pretraining(results),
        _figure5(results),
        _figure6(results),
    ]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def _head(plan: Mapping[str, Any], spent_s: float) -> str:
    names = ", ".join(_name(workload) for workload in plan["workloads"])
    return f"""# EGRL reproduced

S. Khadka et al., *Optimizing memory placement using evolutionary graph reinforcement learning*: its
Figures 3 to 6 and F.2, and pre-training, which it leaves to others. Made by `egrl reproduce egrl`.

**What was run.** {names} on chip `nnpi`; {plan["evals"]} evaluations a run, seeds 0 to {plan["seeds"] - 1}, cold start;
{spent_s / 60:.0f} minutes of searching, had it been one run after the other. Speedups are over the compiler's map on
the same simulator; ± is the sample's standard deviation over seeds.

**What can be compared.** The paper measured on an NNP-I against Intel's compiler. Here both are models: a simulator
with the chip's published capacities and bandwidths, and as the compiler the best of twelve simple rules, which leaves
little to gain (the bound column of Figure 3 says how much at most). So absolute speedups cannot agree; what can are
orderings and shapes, and those are what is judged below."""


# ---- claims


def _claims(results: Results) -> str:
    lines = [
        "## What holds and what does not",
        "",
        "| claim | published | here | holds here |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {claim} | {published} | {ours} | {verdict} |"
        for claim, published, ours, verdict in _judged(results)
    ]
    return "\n".join(lines)


def _judged(results: Results) -> Iterator[tuple[str, str, str, str]]:
    for entry in results["cold"]["workloads"]:
        rows = {row["method"]: row for row in entry["rows"]}
        yield from _orderings(entry["workload"], rows)
    yield from _transfer_claims(results)
    for workload, numbers in results["umap"].items():
        distances, name = numbers["distances"], _name(workload)
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
        yield from _band_claims(_name(workload), numbers)


def _orderings(workload: str, rows: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    published, name = PUBLISHED.get(workload, {}), _name(workload)

    def both(a: str, b: str) -> tuple[str, str]:
        told = f"{published[a]:.2f} against {published[b]:.2f}" if a in published and b in published else "-"
        return told, f"{rows[a]['mean']:.4f} against {rows[b]['mean']:.4f}"

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
        told = f"{published[method]:.2f}" if method in published else "-"
        if method == "greedy-dp" and not above:
            claim = "greedy DP stays below the compiler"
        yield (
            f"{name}: {claim}",
            told,
            f"{rows[method]['mean']:.4f}",
            _yes((rows[method]["mean"] > 1) == above),
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


def _band_claims(name: str, numbers: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
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


# ---- figures


def _figure3(results: Results) -> str:
    printed = {entry["workload"]: entry for entry in results["printed"]["workloads"]}
    lines = ["## Figure 3: speedup over the compiler", ""]
    lines += [
        "*As printed* is Algorithm 2 with the paper's values (`--preset paper`: invalid maps are not run and rewarded"
        " with -epsilon, generational survival, no imitation).",
        "",
        "| workload | method | published | here | best seed | as printed | share of the proven bound |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for entry in results["cold"]["workloads"]:
        rows = {row["method"]: row for row in printed[entry["workload"]]["rows"]}
        for row in entry["rows"]:
            method = row["method"]
            told = PUBLISHED.get(entry["workload"], {}).get(method)
            own = "-" if method not in rows else _plus_minus(rows[method])
            share = "-" if row["of_bound"] is None else f"{row['of_bound']:.2%}"
            lines.append(
                f"| {_name(entry['workload'])} | {method} | {'-' if told is None else f'{told:.2f}'} |"
                f" {_plus_minus(row)} | {row['best']:.4f} | {own} | {share} |"
            )
    for entry in results["cold"]["workloads"]:
        lines += ["", _image("curves", entry["workload"], "learning curves")]
    return "\n".join(lines)


def _figure4(results: Results) -> str:
    lines = [
        "## Figure 4: zero-shot transfer",
        "",
        "Speedup on each workload with no training there: of the policy saved last, and of the best one saved before.",
        "",
    ]
    names = results["transfer"]["transfers"][0]["targets"]
    lines += ["| policies | when | " + " | ".join(names) + " |", "|---|---|" + "---:|" * len(names)]
    for each in results["transfer"]["transfers"]:
        for when, pick in (("last", lambda row: row[-1]), ("best moment", max)):
            cells = [f"{pick(row):.3f}" for row in each["speedup"]]
            lines.append(f"| {each['policies']} | {when} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", "![zero-shot transfer](figures/transfer.png)"])


def _pretraining(results: Results) -> str:
    found = results["pretraining"]
    options = found["options"]
    lines = [
        "## Pre-training",
        "",
        f"One policy trained on {', '.join(options['workloads'])} for {options['gens']} generations (method `es`: mean"
        f" log speedup over all of them), chosen on {', '.join(options['validation'])}; generation"
        f" {found['chosen']['generation']} was chosen. Below, zero-shot speedups on workloads that no policy was"
        " trained or chosen on, and their geometric mean.",
        "",
        "| policy | " + " | ".join(found["targets"]) + " | mean |",
        "|---|" + "---:|" * (len(found["targets"]) + 1),
    ]
    for row in sorted(found["rows"], key=lambda row: -row["mean"]):
        cells = [f"{value:.3f}" for value in row["speedup"]]
        lines.append(f"| {row['policies']} | " + " | ".join(cells) + f" | {row['mean']:.4f} |")
    return "\n".join(
        [
            *lines,
            "",
            "![held-out workloads](figures/zeroshot.png)",
            "",
            "![along pre-training](figures/pretraining.png)",
        ]
    )


def _figure5(results: Results) -> str:
    lines = [
        "## Figure 5: mappings in two dimensions",
        "",
        "Compiler-competitive: the first mappings of each seed whose speedup lies within 2% of 1; best: the fastest."
        " Numbers are taken between mappings (share of tensors that lie elsewhere), not in the picture.",
        "",
        "| workload | silhouette | spread, competitive | in a run | spread, best | in a run | compiler to competitive"
        " | to best |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for workload, numbers in results["umap"].items():
        found = numbers["distances"]
        lines.append(
            f"| {_name(workload)} | {found['separation']:.2f} | "
            + " | ".join(
                f"{found[kind][group]:.2f}"
                for group in ("competitive", "best")
                for kind in ("spread", "spread_in_a_run")
            )
            + f" | {found['to_compiler']['competitive']:.2f} | {found['to_compiler']['best']:.2f} |"
        )
    return "\n".join([*lines, *(f"\n{_image('umap', workload, 'UMAP')}" for workload in results["umap"])])


def _figure6(results: Results) -> str:
    lines = ["## Figures 6 and F.2: memory-map shifts", ""]
    lines += [
        "| workload | tensors | contiguity, compiler | best | share of bytes by memory, compiler | best |"
    ]
    lines += ["|---|---|---:|---:|---|---|"]
    for workload, numbers in results["bands"].items():
        for head in numbers["heads"]:
            cells = [
                ", ".join(
                    f"{memory} {share:.0%}"
                    for memory, share in zip(head["memories"], head[who]["byte_share"], strict=True)
                )
                for who in ("compiler", "best")
            ]
            lines.append(
                f"| {_name(workload)} | {head['head']} | {head['compiler']['contiguity']:.2f} |"
                f" {head['best']['contiguity']:.2f} | {cells[0]} | {cells[1]} |"
            )
    for workload in results["bands"]:
        lines += ["", _image("shift", workload, "memory-map shift")]
        lines += ["", _image("bands", workload, "memory maps")]
    lines += ["", "What the memories hold over time, and what bounds each op:"]
    for workload in results["utilisation"]:
        lines += ["", _image("utilisation", workload, "utilisation")]
        lines += ["", _image("breakdown", workload, "breakdown")]
    return "\n".join(lines)


# ---- words


def _name(workload: str) -> str:
    return NAMES.get(workload, workload)


def _yes(holds: bool, otherwise: str = "no") -> str:
    return "yes" if holds else otherwise


def _plus_minus(row: Mapping[str, Any]) -> str:
    deviation = row["deviation"]
    return f"{row['mean']:.4f}" + ("" if deviation is None else f" ± {deviation:.4f}")


def _image(figure: str, workload: str, what: str) -> str:
    return f"![{what} of {_name(workload)}](figures/{figure}-{workload}.png)"


def images(text: str) -> Sequence[str]:
    """The files that a report shows, in order."""
    import re

    return re.findall(r"\]\((figures/[^)]+)\)", text)
