"""The report of `egrl reproduce mmap`: the published numbers beside ours, everything made of results.json."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean, geometric_mean
from typing import Any

from egrl.reproduce import mmap_sections as sections
from egrl.reproduce.mmap_paper import AGENT
from egrl.reproduce.mmap_published import TABLE2
from egrl.reproduce.mmap_sections import plus_minus as _mean

ORDERINGS = (
    ("muzero", "es", "the agent beats evolution strategies"),
    ("muzero", "random", "the agent beats random play"),
    ("es", "random", "evolution strategies beat random play"),
)

Results = Mapping[str, Any]


def report(results: Results) -> str:
    """The report as Markdown; figures are beside it in figures/."""
    parts = [
        _head(results),
        _claims(results),
        _table(results),
        _figure(),
        _bounds(results),
        _latency(results),
        sections.ablation(results),
        sections.speedups(results),
        sections.correlation(results),
        sections.layout(results),
        sections.shared(results),
        sections.remarks(results),
    ]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def _head(results: Results) -> str:
    plan = results["plan"]
    settings = f"; settings {', '.join(plan['settings'])}" if plan["settings"] else ""
    threads = (
        "one thread"
        if plan["threads"] == 1
        else f"{plan['threads']} threads (methods without a learner: one)"
    )
    programs = ", ".join(f"`{name}`" for name in plan["programs"])
    return f"""# The MMapGame reproduced

*Optimizing memory mapping using deep reinforcement learning* (MMapGame, MMap-MuZero): Tables 2 to 5, Figures 5 to 8
and 10. Made by `egrl reproduce mmap`.

**What was run.** Programs {programs} on chip `tpuv4i`; each method {plan["seconds"]:g} s of searching,
{threads}; seeds 0 to {plan["seeds"] - 1}, cold start{settings}. *Agent* is method `muzero`. Rewards are
the return over the most that fast memory could save; ± is the sample's standard deviation over seeds. Speedups over all
programs are of one run of {plan["suite_seconds"]:g} s each.

**What can be compared.** The paper's programs are not public: those here have their names and about their numbers of
buffers, and are otherwise this package's own. Its rewards are normalised in a way that it does not state, its times
are measured on a TPUv4i, and its agent is trained for up to 24 hours on hardware that it does not name. So rewards
cannot agree; what can are orderings."""


def _claims(results: Results) -> str:
    lines = [
        "## What holds and what does not",
        "",
        "| claim | published | here | holds here |",
        "|---|---|---|---|",
    ]
    for program, entry in results["programs"].items():
        methods, published = entry["methods"], TABLE2.get(program, {})
        for ours, theirs, claim in ORDERINGS:
            if {ours, theirs} <= methods.keys():
                told = f"{published[ours]:.2f} against {published[theirs]:.2f}" if published else "-"
                rewards = methods[ours]["reward"], methods[theirs]["reward"]
                lines.append(sections.judged(f"`{program}`: {claim}", told, *rewards))
        own = [entry["heuristic"]["reward"]]
        claim = f"`{program}`: the agent beats the heuristic's own layout"
        lines.append(sections.judged(claim, "-", methods[AGENT]["reward"], own))
    lines += sections.claims(results)
    return "\n".join(lines)


def _table(results: Results) -> str:
    methods = results["plan"]["methods"]
    head = [
        "program",
        "buffers",
        *(f"`{m}`" for m in methods),
        "greedy",
        "heuristic",
        "bound",
        "published: agent, ES, random",
    ]
    lines = ["## Table 2: rewards", "", "| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for program, entry in results["programs"].items():
        told = TABLE2.get(program)
        published = "-" if told is None else f"{told['muzero']:.4f}, {told['es']:.4f}, {told['random']:.4f}"
        cells = [f"`{program}`", f"{entry['buffers']:,}"]
        cells += [_mean(entry["methods"][method]["reward"]) for method in methods]
        cells += [f"{entry[name]['reward']:.4f}" for name in ("greedy", "heuristic")]
        cells += [f"{entry['bound']['reward']:.4f}", published]
        lines.append("| " + " | ".join(cells) + " |")
    evaluations = [
        f"`{program}` "
        + ", ".join(f"{method} {fmean(entry['methods'][method]['evaluations']):,.0f}" for method in methods)
        for program, entry in results["programs"].items()
    ]
    lines += [
        "",
        "*greedy*: the best of 52 plays of the greedy player, each at other prices of room and copies."
        " *heuristic*: the production heuristic's own layout, which may do what no play can.",
    ]
    lines += ["", "Evaluations in these seconds: " + "; ".join(evaluations) + "."]
    return "\n".join(lines)


def _figure() -> str:
    return """## Figure 5: rewards against seconds

![Best reward so far against seconds](figures/rewards.png)

Means over seeds, from the lowest to the highest of them; level lines are the heuristic's own layout and the upper
bound."""


def _bounds(results: Results) -> str:
    lines = [
        "## How far from the best possible",
        "",
        "The bound is proved for every legal play; the heuristic's own layout may do what the game cannot.",
        "",
        "| program | best reward | by | upper bound | at most to gain | seconds of the bound | proof |",
        "|---|---|---|---|---|---|---|",
    ]
    for program, entry in results["programs"].items():
        reward, method = _best(entry)
        bound = entry["bound"]
        lines.append(
            f"| `{program}` | {reward:.4f} | `{method}` | {bound['reward']:.4f} | {bound['reward'] / reward - 1:.1%} |"
            f" {bound['seconds']:.0f} | {bound['proof']} |"
        )
    return "\n".join(lines)


def _best(entry: Mapping[str, Any]) -> tuple[float, str]:
    return max((max(found["reward"]), method) for method, found in entry["methods"].items())


def _latency(results: Results) -> str:
    methods = results["plan"]["methods"]
    lines = [
        "## What latency says",
        "",
        "Speedup of the layout with the best reward over the heuristic's own layout, on the simulated device, where"
        " copies contend with instructions; mean over seeds. `-prod` takes the quicker of the two, so that it is never"
        " below 1 (mean over programs: arithmetic, as in the paper's Table 3).",
        "",
        "| program | heuristic, us | " + " | ".join(f"`{m}`" for m in methods) + " |",
        "|---|---|" + "---|" * len(methods),
    ]
    for program, entry in results["programs"].items():
        cells = [_mean(entry["methods"][method]["speedup"]) for method in methods]
        lines.append(f"| `{program}` | {entry['heuristic']['cost'] * 1e6:,.1f} | " + " | ".join(cells) + " |")
    per_method = {
        method: [fmean(entry["methods"][method]["speedup"]) for entry in results["programs"].values()]
        for method in methods
    }
    produced = {
        method: fmean(
            fmean(max(1.0, value) for value in entry["methods"][method]["speedup"])
            for entry in results["programs"].values()
        )
        for method in methods
    }
    lines.append(
        "| geometric mean | | " + " | ".join(f"{geometric_mean(per_method[m]):.4f}" for m in methods) + " |"
    )
    lines.append("| `-prod`, mean | | " + " | ".join(f"{produced[m]:.4f}" for m in methods) + " |")
    return "\n".join(lines)
