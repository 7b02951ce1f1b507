"""The paper's claims on multi-chip modules, and whether they hold for its own agent and for ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from egrl.reproduce.mcm import published
from egrl.reproduce.mcm.plan import AGENTS, ON_HELD_OUT, ON_TEST, TUNED

Results = Mapping[str, Any]


def claims(results: Results) -> str:
    """The paper's claims as a table: what was published, what was found here, whether it holds."""
    lines = [
        "## What holds and what does not",
        "",
        "Asked of the paper's agent, `rl`, and of ours, `ppo`.",
        "",
        "| claim | published | here | holds here |",
        "|---|---|---|---|",
    ]
    for where, name, paper in ((ON_TEST, "test graphs", "test"), (ON_HELD_OUT, "held-out graph", "bert")):
        for agent in AGENTS:
            if agent in results[where]["variants"]:
                lines += [f"| {name}: {row} |" for row in _asked_of(results, where, agent, paper)]
    models = results["models"]
    lines.append(
        f"| of random partitions of BERT some do not run on the device | {published.INVALID:.1%} |"
        f" {models['invalid']:.1%} | {'yes' if models['invalid'] > 0 else 'no'} |"
    )
    return "\n".join(lines)


def _asked_of(results: Results, where: str, agent: str, paper: str) -> Iterator[str]:
    """Rows of an agent: claim, published, here, verdict."""
    own = results[where]
    found = own["variants"]
    for rival, told in (("random", published.OVER_RANDOM), ("sa", published.OVER_SA), ("annealing", None)):
        if rival in found:
            interval = own["against"][f"{agent} - {rival}"]
            ours = fmean(found[agent]["final"]) / max(fmean(found[rival]["final"]), 1e-9) - 1
            said = "-" if told is None else f"{told[paper]:+.2%}"
            here = f"{ours:+.1%}{_bounds(interval)} | {_verdict(interval)}"
            yield f"`{agent}` above `{rival}` in the end | {said} | {here}"
    if goals := own["transfer"].get(agent):
        yield _fewer(agent, goals, paper)
    if f"{agent}-zeroshot" in found:
        early, late = (_at(found, f"{agent}-zeroshot", agent, k) for k in (own["budget_samples"] - 1, -1))
        holds = (early > 0) == (where == ON_TEST) and late < 0
        yield (
            f"`{agent}-zeroshot`, with no training, is ahead of `{agent}` early and behind in the end |"
            f" {'yes' if where == ON_TEST else 'behind all along'} | {early:+.1%} after {own['budget_samples']}"
            f" samples, {late:+.1%} in the end | {'yes' if holds else 'no'}"
        )
    for label, words in (("sample", "FIX outperforms SAMPLE"), ("alone", "the solver is needed")):
        if f"{agent}-{label}" in found:
            interval = own["against"].get(f"{agent}-{label} - {agent}")
            here = (
                f"{_at(found, f'{agent}-{label}', agent, -1):+.1%} with `{agent}-{label}`{_bounds(interval)}"
            )
            yield f"{words}, for `{agent}` | yes | {here} | {_verdict(interval, -1)}"


def _fewer(agent: str, goals: Sequence[Mapping[str, Any]], paper: str) -> str:
    """Whether a pre-trained policy takes fewer samples."""
    ratios = [g["scratch"] / g["tuned"] if g["scratch"] and g["tuned"] else None for g in goals]
    most = max((ratio for ratio in ratios if ratio is not None), default=None)
    here = "never as good" if most is None else f"up to {most:.1f}x fewer"
    here += "" if ratios[-1] is None else f"; {ratios[-1]:.1f}x to all of it"
    return (
        f"`{TUNED[agent]}` takes fewer samples to the throughputs of `{agent}`"
        f" ({', '.join(_counts(goal) for goal in goals)}) | up to {published.FEWER[paper]}x fewer | {here} |"
        f" {'yes' if ratios[-1] is not None and ratios[-1] > 1 else 'no'}"
    )


def _counts(goal: Mapping[str, Any]) -> str:
    """Samples from scratch and by going on, to one throughput."""
    return f"{goal['scratch']} and {goal['tuned'] or 'never'} to {goal['goal']:.4f}"


def _at(found: Results, label: str, first: str, k: int) -> float:
    """How much better a variant's mean curve is than the first's at a sample, as a share."""
    mine, theirs = found[label]["curve"][k], found[first]["curve"][k]
    return float(mine / theirs - 1) if theirs > 0 else float("inf") if mine > 0 else 0.0


def _verdict(interval: Mapping[str, float] | None, sign: int = 1) -> str:
    if interval is None:
        return "one seed"
    if sign * interval["mean"] > 0 and interval["low"] * interval["high"] > 0:
        return "yes"
    return "in the mean only" if sign * interval["mean"] > 0 else "no"


def _bounds(interval: Mapping[str, float] | None) -> str:
    if interval is None:
        return ""
    return f" ({interval['mean']:+.4f} [{interval['low']:+.4f}, {interval['high']:+.4f}])"
