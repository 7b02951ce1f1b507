"""What the report of `egrl reproduce mmap` says beside results.json: verdicts, and means over runs.

The sentences are in `report.md.j2`; published numbers in `published.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, geometric_mean
from typing import Any

from egrl.reproduction import interval_text, paired, render, verdict
from egrl_muzero.paper import plan, published
from egrl_muzero.paper.plan import AGENT, FULL, UNREVISED
from egrl_muzero.paper.published import TABLE2

Results = Mapping[str, Any]
Claim = tuple[str, str, str, str]
"""What is claimed, what was published, what came out here, whether it holds."""

ORDERINGS = (
    (UNREVISED, "es", "the agent beats evolution strategies"),
    (UNREVISED, "random", "the agent beats random play"),
    ("es", "random", "evolution strategies beat random play"),
)
"""What the paper says, of the agent that is nearest to its own."""
PARTS = (
    (UNREVISED, "no-learning", "yes"),
    (UNREVISED, "no-search", "yes"),
    (FULL, UNREVISED, "-"),
    (FULL, "no-learning", "-"),
    (FULL, "no-search", "-"),
    (FULL, "revisions alone", "-"),
)
"""Agents, what each is compared with, and what the paper says of it: neither of Figure 7's ablations revises games."""
HEURISTIC, FROM_SHARED = "heuristic", "from the shared agent"
FEW = 200
"""Games below which a run is said to have hardly begun: the first of nearly every slot begins with random moves."""


def report(results: Results) -> str:
    """The report as Markdown; figures are beside it in figures/."""
    programs = results["programs"]
    labels = list(next(iter(programs.values()))["methods"])
    return render(
        Path(__file__).with_name("report.md.j2"),
        **results,
        **{name: getattr(plan, name) for name in ("AGENT", "REVISE", "UNREVISED")},
        **{
            name: getattr(published, name)
            for name in ("TABLE2", "TABLE3", "TABLE3_PROGRAMS", "TABLE4", "TABLE5")
        },
        FEW=FEW,
        labels=labels,
        shown={
            label: f"*{label}*" if label in (UNREVISED, HEURISTIC) else f"`{label}`"
            for label in (*labels, HEURISTIC)
        },
        claims=[*_orderings(results), *_parts(results), *_others(results)],
        rivals=[label for label in labels if label != AGENT] + [HEURISTIC],
        against=_against,
        best=_best,
        geometric={label: geometric_mean(_speedups(results, label)) for label in labels},
        produced={
            label: fmean(
                fmean(max(1.0, x) for x in entry["methods"][label]["speedup"]) for entry in programs.values()
            )
            for label in labels
        },
        games=_games,
        own_play=_own_play,
        sources=_sources,
        alias_groups=_alias_groups(results),
        shared_counts=_shared_counts(results),
        times=lambda count: {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times"),
        played=lambda entry, label: fmean(value or 0 for value in entry["methods"][label]["games"]),
    )


def _above(claim: str, published: str, ours: Sequence[float], theirs: Sequence[float]) -> Claim:
    """The claim that the first runs' rewards are above the second's."""
    interval = paired(ours, theirs)
    here = f"{fmean(ours):.4f} against {fmean(theirs):.4f}{interval_text(interval)}"
    return claim, published, here, verdict(interval, fmean(theirs))


def _orderings(results: Results) -> Iterator[Claim]:
    for program, entry in results["programs"].items():
        methods, table = entry["methods"], TABLE2.get(program)
        for ours, theirs, claim in ORDERINGS:
            if {ours, theirs} <= methods.keys():
                pair = [AGENT if label == UNREVISED else label for label in (ours, theirs)]
                figures = "-" if table is None else " against ".join(f"{table[label]:.2f}" for label in pair)
                yield _above(
                    f"`{program}`: {claim}", figures, methods[ours]["reward"], methods[theirs]["reward"]
                )


def _parts(results: Results) -> Iterator[Claim]:
    agents, name = results["ablation"], results["plan"]["ablated"]
    for better, part, figures in PARTS:
        claim = f"`{name}`: {better} is better than *{part}*{' (Figure 7)' if figures == 'yes' else ''}"
        yield _above(claim, figures, agents[better]["reward"], agents[part]["reward"])


def _others(results: Results) -> Iterator[Claim]:
    suite = results["suite"]
    mean = suite["agent"]["mean"]
    yield (
        "the agent is quicker than the heuristic on average (Table 3)",
        f"{published.TABLE3['agent']['mean']:.4f} over {published.TABLE3_PROGRAMS} programs",
        f"{mean:.4f} over {len(suite['programs'])}",
        "yes" if mean > 1 else "no",
    )
    large, small = (
        [
            own["pearson"]
            for own in results["correlation"].values()
            if own["group"] == group and own["pearson"] is not None
        ]
        for group in ("largest", "smallest")
    )
    if large and small:
        yield (
            "reward tells latency better where speedups are large (Table 5)",
            "-0.98 against -0.20",
            f"{fmean(large):.2f} against {fmean(small):.2f}",
            "yes" if fmean(large) < fmean(small) else "no",
        )
    agent, heuristic = (layout["come_again"] for layout in results["layout"]["layouts"])
    yield (
        f"`{results['layout']['program']}`: the agent lets tensors leave fast memory and come again more often"
        " (Figure 8)",
        "yes",
        f"{agent} tensors against {heuristic}",
        "yes" if agent > heuristic else "no",
    )


def _against(entry: Mapping[str, Any], label: str) -> str:
    """The full agent's rewards against another's, by the mean over its seeds."""
    ours = entry["methods"][AGENT]["reward"]
    theirs = entry["methods"][label]["reward"] if label in entry["methods"] else [entry[HEURISTIC]["reward"]]
    interval = paired(ours, theirs * len(ours) if len(theirs) == 1 else theirs)
    words = {"yes": "above", "no": "below"}
    found = verdict(interval, fmean(theirs))
    said = interval_text(interval) or f" ({fmean(ours) - fmean(theirs):+.4f})"
    return f"{words.get(found, found)}{said}"


def _best(entry: Mapping[str, Any]) -> tuple[float, str]:
    return max((max(runs["reward"]), method) for method, runs in entry["methods"].items())


def _speedups(results: Results, label: str) -> list[float]:
    return [fmean(entry["methods"][label]["speedup"]) for entry in results["programs"].values()]


def _games(runs: Mapping[str, Any]) -> str:
    """How many games a method's runs measured, or the agent's played, and how many were revised, on average."""
    played, revised = (
        fmean(value or 0 for value in (values if isinstance(values, list) else [values]))
        for values in (runs.get("games", runs["evaluations"]), runs.get("revisions", [0]))
    )
    return f"{played:,.0f}" + (f", {revised:,.0f} revised" if revised else "")


def _own_play(runs: Mapping[str, Any]) -> str:
    """The mean return of games without noise in the end, over the runs that ended such games."""
    known = [value for value in runs["greedy_returned"] if value is not None]
    return f"{fmean(known):.4f}" if known else "-"


def _sources(runs: Mapping[str, Any]) -> str:
    sources = runs["source"]
    return ", ".join(f"{sources.count(name)} of {len(sources)} by {name}" for name in dict.fromkeys(sources))


def _alias_groups(results: Results) -> list[tuple[str, int]]:
    """Programs with alias groups and how many they have, the largest number first."""
    counts = [
        (name, own["alias_groups"])
        for name, own in results["suite"]["programs"].items()
        if own["alias_groups"]
    ]
    return sorted(counts, key=lambda entry: -entry[1])


def _shared_counts(results: Results) -> dict[str, int]:
    """On how many held-out programs the shared agent is ahead, and the games of the shortest run there."""
    held = results["shared"]["held_out"].values()
    pairs = [[entry[label] for label in (FROM_SHARED, "from scratch")] for entry in held]
    return {
        "better": sum(entry["deployed"]["reward"] > entry["random"] for entry in held),
        "ahead": sum(shared["reward"][0] > scratch["reward"][0] for shared, scratch in pairs),
        "of": len(held),
        "shortest": min(runs["evaluations"][0] for pair in pairs for runs in pair),
    }
