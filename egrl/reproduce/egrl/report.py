"""The report of `egrl reproduce egrl`: EGRL's figures and claims, the published number beside ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from egrl.reproduce.egrl.claims import claims
from egrl.reproduce.egrl.published import PUBLISHED
from egrl.reproduce.egrl.wording import image, plus_minus, title_of

Results = Mapping[str, Any]


def report(results: Results, spent_s: float) -> str:
    """The report as Markdown; figures are beside it in figures/."""
    plan = results["plan"]
    parts = [
        _head(plan, spent_s),
        claims(results),
        _figure3(results),
        _figure4(results),
        _pretraining(results),
        _figure5(results),
        _figure6(results),
    ]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def _head(plan: Mapping[str, Any], spent_s: float) -> str:
    names = ", ".join(title_of(workload) for workload in plan["workloads"])
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
            own = "-" if method not in rows else plus_minus(rows[method])
            share = "-" if row["of_bound"] is None else f"{row['of_bound']:.2%}"
            lines.append(
                f"| {title_of(entry['workload'])} | {method} | {'-' if told is None else f'{told:.2f}'} |"
                f" {plus_minus(row)} | {row['best']:.4f} | {own} | {share} |"
            )
    for entry in results["cold"]["workloads"]:
        lines += ["", image("curves", entry["workload"], "learning curves")]
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
            f"| {title_of(workload)} | {found['separation']:.2f} | "
            + " | ".join(
                f"{found[kind][group]:.2f}"
                for group in ("competitive", "best")
                for kind in ("spread", "spread_in_a_run")
            )
            + f" | {found['to_compiler']['competitive']:.2f} | {found['to_compiler']['best']:.2f} |"
        )
    return "\n".join([*lines, *(f"\n{image('umap', workload, 'UMAP')}" for workload in results["umap"])])


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
                f"| {title_of(workload)} | {head['head']} | {head['compiler']['contiguity']:.2f} |"
                f" {head['best']['contiguity']:.2f} | {cells[0]} | {cells[1]} |"
            )
    for workload in results["bands"]:
        lines += ["", image("shift", workload, "memory-map shift")]
        lines += ["", image("bands", workload, "memory maps")]
    lines += ["", "What the memories hold over time, and what bounds each op:"]
    for workload in results["utilisation"]:
        lines += ["", image("utilisation", workload, "utilisation")]
        lines += ["", image("breakdown", workload, "breakdown")]
    return "\n".join(lines)


# ---- words
