"""What the report of `egrl reproduce mcm` says beside results.json: ratios, and the paper's claims with verdicts.

    python -m papers.mcm.report docs/results/data/mcm.json.xz

prints the report of results that ship.
The sentences are in `report.md.j2`; published numbers in `published.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, geometric_mean
from typing import Any

from egrl.reproduction import interval_text, render, shipped, verdict
from papers.mcm import published
from papers.mcm.numbers import SHARES
from papers.mcm.plan import AGENTS, ON_HELD_OUT, ON_TEST, TUNED

Results = Mapping[str, Any]
Interval = Mapping[str, float]
"""The mean of a difference and its 95% interval: mean, low, high."""
Claim = tuple[str, str, str, str]
"""What is claimed, what was published, what came out here, whether it holds."""

WHAT = {
    "rl": "the paper's agent (`ppo --preset paper`) from scratch, with FIX",
    "rl-finetuned": "the same, beginning with its pre-trained policy that was best to go on from",
    "rl-zeroshot": "its pre-trained policy that was best with no training, its weights as they are",
    "rl-sample": "the paper's agent from scratch, SAMPLE instead of FIX",
    "rl-alone": "the paper's agent from scratch without the solver: what it draws is judged as it is",
    "ppo": "our agent from scratch (not in the paper): what it draws from the best is brought about in order",
    "ppo-finetuned": "the same, beginning with its pre-trained policy that was best to go on from",
    "ppo-zeroshot": "its pre-trained policy that was best with no training, its weights as they are",
    "ppo-frozen": "our agent with weights as they were drawn: what its search does without learning",
    "ppo-sample": "our agent from scratch, SAMPLE instead of FIX",
    "uninformed": "our agent from scratch, not knowing before any learning how a pipeline lies evenly",
    "uninformed-finetuned": "the same, beginning with a policy pre-trained so, the best to go on from",
    "uninformed-zeroshot": "the policy pre-trained so that was best with no training, its weights as they are",
    "random": "SAMPLE from uniform probabilities",
    "sa": "annealing over the distributions that SAMPLE draws from, the paper's",
    "annealing": "annealing over partitions, with moves out of the fullest chips (this package's default)",
    "egrl": "EGRL from scratch (not in the paper), without its critic of terms",
    "egrl-finetuned": "the same, beginning with a policy pre-trained by `es` (not in the paper)",
}


def report(results: Results) -> str:
    """The report as Markdown; figures are beside it in figures/."""
    first = results["plan"]["variants"][0]
    held_out = results[ON_HELD_OUT]["variants"]
    needed = [held_out[label]["samples"][-1] for label in (first, "rl-finetuned") if label in held_out]
    return render(
        Path(__file__).with_name("report.md.j2"),
        plan=results["plan"],
        on={where: results[where] for where in (ON_TEST, ON_HELD_OUT)},
        ON_TEST=ON_TEST,
        ON_HELD_OUT=ON_HELD_OUT,
        pretraining=results["pretraining"],
        models=results["models"],
        WHAT=WHAT,
        published=published,
        shares=", ".join(f"{share:.0%}" for share in SHARES),
        first=first,
        claims=list(_claims(results)),
        agents=" and of ".join(AGENTS[label] for label in AGENTS if label in results["plan"]["variants"]),
        over_random={where: _over_random(results[where]) for where in (ON_TEST, ON_HELD_OUT)},
        samples=_samples,
        minutes=[count * results["plan"]["sample_s"] / 60 for count in needed]
        if len(needed) == 2 and all(needed)
        else None,
    )


def _over_random(own: Results) -> float | None:
    """The geometric mean over graphs of the greedy heuristic's throughput over a random partition's."""
    ratios = [ratio for ratio in own["over_random"].values() if ratio is not None]
    return geometric_mean(ratios) if ratios else None


def _samples(variants: Results, first: str, label: str) -> list[str]:
    """Samples that a variant takes to each throughput, and how many times fewer than the first."""
    cells = []
    for theirs, mine in zip(variants[first]["samples"], variants[label]["samples"], strict=True):
        ratio = "" if mine is None or theirs is None else f" ({theirs / mine:.2f})"
        cells.append("never" if mine is None else f"{mine}{ratio}")
    return cells


def _claims(results: Results) -> Iterator[Claim]:
    """The paper's claims of its agent and of ours."""
    for where, name, paper in ((ON_TEST, "test graphs", "test"), (ON_HELD_OUT, "held-out graph", "bert")):
        for agent in AGENTS:
            if agent in results[where]["variants"]:
                for claim, *cells in _of_agent(results, where, agent, paper):
                    yield f"{name}: {claim}", cells[0], cells[1], cells[2]
    invalid = results["models"]["invalid"]
    yield (
        "of random partitions of BERT some do not run on the device",
        f"{published.INVALID:.1%}",
        f"{invalid:.1%}",
        "yes" if invalid > 0 else "no",
    )


def _of_agent(results: Results, where: str, agent: str, paper: str) -> Iterator[Claim]:
    own = results[where]
    variants = own["variants"]
    for rival, over in (("random", published.OVER_RANDOM), ("sa", published.OVER_SA), ("annealing", None)):
        if rival in variants:
            interval = own["against"][f"{agent} - {rival}"]
            gain = fmean(variants[agent]["final"]) / max(fmean(variants[rival]["final"]), 1e-9) - 1
            yield (
                f"`{agent}` above `{rival}` in the end",
                "-" if over is None else f"{over[paper]:+.2%}",
                f"{gain:+.1%}; of the logarithm{interval_text(interval)}",
                verdict(interval),
            )
    if goals := own["transfer"].get(agent):
        yield _fewer(agent, goals, paper)
    if f"{agent}-zeroshot" in variants:
        early, late = (
            _ahead(variants, f"{agent}-zeroshot", agent, k) for k in (own["budget_samples"] - 1, -1)
        )
        holds = (early > 0) == (where == ON_TEST) and late < 0
        yield (
            f"`{agent}-zeroshot`, with no training, is ahead of `{agent}` early and behind in the end",
            "yes" if where == ON_TEST else "behind all along",
            f"{early:+.1%} after {own['budget_samples']} samples, {late:+.1%} in the end",
            "yes" if holds else "no",
        )
    for label, words in (("sample", "FIX outperforms SAMPLE"), ("alone", "the solver is needed")):
        if f"{agent}-{label}" in variants:
            interval = own["against"].get(f"{agent}-{label} - {agent}")
            ahead = _ahead(variants, f"{agent}-{label}", agent, -1)
            here = f"{ahead:+.1%} with `{agent}-{label}`; of the logarithm{interval_text(interval)}"
            yield (
                f"{words}, for `{agent}`",
                "yes",
                here,
                verdict(interval, sign=-1),
            )


def _fewer(agent: str, goals: Sequence[Mapping[str, Any]], paper: str) -> Claim:
    """Whether a pre-trained policy takes fewer samples."""
    ratios = [g["scratch"] / g["tuned"] if g["scratch"] and g["tuned"] else None for g in goals]
    most = max((ratio for ratio in ratios if ratio is not None), default=None)
    here = "never as good" if most is None else f"up to {most:.1f}x fewer"
    here += "" if ratios[-1] is None else f"; {ratios[-1]:.1f}x to all of it"
    counts = ", ".join(f"{g['scratch']} and {g['tuned'] or 'never'} to {g['goal']:.4f}" for g in goals)
    return (
        f"`{TUNED[agent]}` takes fewer samples to the throughputs of `{agent}` ({counts})",
        f"up to {published.FEWER[paper]}x fewer",
        here,
        "yes" if ratios[-1] is not None and ratios[-1] > 1 else "no",
    )


def _ahead(variants: Results, label: str, first: str, k: int) -> float:
    """How much better a variant's mean curve is than the first's at a sample, as a share."""
    mine, theirs = variants[label]["curve"][k], variants[first]["curve"][k]
    return float(mine / theirs - 1) if theirs > 0 else float("inf") if mine > 0 else 0.0


if __name__ == "__main__":
    print(report(shipped(Path(sys.argv[1]))))
