"""The report of `egrl reproduce mcm`: the published numbers beside ours, everything made of results.json."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev

from egrl.reproduce.mcm import published
from egrl.reproduce.mcm.claims import Results, claims
from egrl.reproduce.mcm.numbers import SHARES
from egrl.reproduce.mcm.plan import ON_HELD_OUT, ON_TEST

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
    "egrl": "EGRL from scratch (not in the paper)",
    "egrl-finetuned": "EGRL, beginning with a policy pre-trained by `es` (not in the paper)",
}


def report(results: Results) -> str:
    """The report as Markdown; figures are beside it in figures/."""
    parts = [
        _head(results),
        claims(results),
        _searches(results, ON_TEST),
        _graphs(results),
        _searches(results, ON_HELD_OUT),
        _budget(results),
        _pretraining(results),
        _models(results),
    ]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def _head(results: Results) -> str:
    plan = results["plan"]
    variants = "\n".join(f"- `{label}`: {WHAT[label]}" for label in plan["variants"])
    return f"""# Partitioning over multi-chip modules, reproduced

*A Transferable Approach for Partitioning Machine Learning Models on Multi-Chip-Modules*: Tables 2 and 3, Figures 5 to
7. Made by `egrl reproduce mcm`.

**What was run.** Package `mcm36`. Pre-training on {len(plan["training"])} graphs, analytical model,
{plan["gens"] * 21:,} samples, a checkpoint every {plan["save_every"] * 21} of them; each checkpoint then on
{len(plan["validation"])} validation graphs, with no training and after {plan["validation_evaluations"]} samples. Then,
seeds 0 to {plan["seeds"] - 1}: {len(plan["test"])} test graphs, analytical model, {plan["test_evaluations"]} samples a
run; and `{plan["held_out"]}`, device model, {plan["held_out_evaluations"]} samples a run. Every run measures the greedy
heuristic's partition first; what goes on from one partition to the next begins there.

{variants}

**What can be compared.** The paper's graphs, package constants and compiler are not public, its hardware is a real
package: here graphs are this package's own (`workloads/zoo/mcm87.py`), and the device is simulated. The greedy
heuristics are others, so improvements over them cannot agree; what can are orderings and ratios of samples."""


def _ratios(found: Results, first: str, label: str) -> list[float | None]:
    """How many times fewer samples a variant takes to each throughput than the first."""
    pairs = zip(found[first]["samples"], found[label]["samples"], strict=True)
    return [None if mine is None or theirs is None else theirs / mine for theirs, mine in pairs]


def _searches(results: Results, where: str) -> str:
    own, first = results[where], results["plan"]["variants"][0]
    goals, told = own["goals"], published.TABLE2 if where == ON_TEST else published.TABLE3
    over = [ratio for ratio in own["over_random"].values() if ratio is not None]
    if where == ON_TEST:
        title = f"## Table 2 and Figure 5: {len(own['graphs'])} test graphs, analytical model"
        scale = "geometric mean"
    else:
        title, scale = f"## Table 3 and Figure 6: `{own['graphs'][0]}`, device model", ""
    times = _geometric(over)
    lines = [
        title,
        "",
        f"![Throughput against samples](figures/{where}.png)",
        "",
        "Throughput over the greedy heuristic's"
        + (f" ({scale} over graphs)" if scale else "")
        + f"; mean over seeds ± the sample's standard deviation. Samples until the mean curve reaches a throughput, in"
        f" brackets how many times fewer than `{first}`, whose final value sets the throughputs ({_shares()})."
        + (
            f" Over the random partition: times {times:.2f}."
            if over
            else " The random partition does not run."
        ),
        "",
        "| | in the end | best run | " + " | ".join(f"to {goal:.4f}" for goal in goals) + " | published |",
        "|---|---|---|" + "---|" * (len(goals) + 1),
    ]
    for label, entry in own["variants"].items():
        ratios = _ratios(own["variants"], first, label)
        cells = [
            "never" if count is None else f"{count}" + ("" if ratio is None else f" ({ratio:.2f})")
            for count, ratio in zip(entry["samples"], ratios, strict=True)
        ]
        said = ", ".join(told[label]) if label in told else "-"
        lines.append(
            f"| `{label}` | {_plus_minus(entry['final'])} | {max(entry['final']):.4f} | {' | '.join(cells)} | {said} |"
        )
    values = "1.60, 1.70, 1.80" if where == ON_TEST else "2.55, 2.60, 2.65"
    lines += ["", f"Published: samples to improvements of {values} over the paper's heuristic."]
    lines += ["", "Differences of final values, paired by seed, with 95% intervals (Student's t):", ""]
    lines += [
        f"- {name}: {interval['mean']:+.4f} [{interval['low']:+.4f}, {interval['high']:+.4f}]"
        for name, interval in own["against"].items()
        if interval is not None
    ]
    return "\n".join(lines)


def _shares() -> str:
    return ", ".join(f"{share:.0%}" for share in SHARES) + " of it"


def _graphs(results: Results) -> str:
    own = results[ON_TEST]
    labels = list(own["variants"])
    lines = [
        "## Graph by graph",
        "",
        "Final throughput over the greedy heuristic's, mean over seeds.",
        "",
        "| graph | " + " | ".join(f"`{label}`" for label in labels) + " |",
        "|---" * (len(labels) + 1) + "|",
    ]
    for name in own["graphs"]:
        cells = [f"{fmean(own['variants'][label]['by_graph'][name]):.3f}" for label in labels]
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _budget(results: Results) -> str:
    plan, first = results["plan"], results["plan"]["variants"][0]
    count = results[ON_HELD_OUT]["budget_samples"]
    lines = [
        f"## A fixed budget of {plan['budget_s'] / 60:g} minutes",
        "",
        f"At {plan['sample_s']:g} s a sample on hardware (simulated clock) that is {count} samples. Throughput over the"
        f" greedy heuristic's then; published: fine-tuning is up to {published.BUDGET_GAIN:.2%} better than random and"
        " annealing.",
        "",
        f"| | test graphs | `{plan['held_out']}` |",
        "|---|---|---|",
    ]
    for label in plan["variants"]:
        cells = [_plus_minus(results[where]["variants"][label]["budget"]) for where in (ON_TEST, ON_HELD_OUT)]
        lines.append(f"| `{label}` | {cells[0]} | {cells[1]} |")
    needed = results[ON_HELD_OUT]["variants"]
    if "rl-finetuned" in needed and needed[first]["samples"][-1] and needed["rl-finetuned"]["samples"][-1]:
        hours = [needed[label]["samples"][-1] * plan["sample_s"] / 60 for label in (first, "rl-finetuned")]
        lines += [
            "",
            f"To what `{first}` reaches in the end it would take {hours[0]:.0f} minutes on that clock from scratch, and"
            f" {hours[1]:.0f} by fine-tuning (published: 190 and 9).",
        ]
    return "\n".join(lines)


def _pretraining(results: Results) -> str:
    lines = [
        "## Pre-training",
        "",
        "![Checkpoints on the validation graphs](figures/checkpoints.png)",
        "",
        "| method | checkpoints | seconds | best with no training | at | best after fine-tuning | at |",
        "|---|---|---|---|---|---|---|",
    ]
    for method, own in results["pretraining"].items():
        zero, tuned = own["chosen"], own["chosen_finetuned"]
        lines.append(
            f"| `{method}` | {len(own['evaluations'])} | {own['seconds']:.0f} | {zero['speedup']:.4f} | generation"
            f" {zero['generation']} | {tuned['speedup']:.4f} | generation {tuned['generation']} |"
        )
    lines += [
        "",
        "Geometric means over the validation graphs. `es` trains the policies that `egrl` goes on from.",
    ]
    return "\n".join(lines)


def _models(results: Results) -> str:
    own = results["models"]
    return f"""## Figure 7: the analytical model and the device

![Costs by both models](figures/models.png)

{own["partitions"]:,} partitions drawn by SAMPLE from uniform probabilities: {own["invalid"]:.1%} do not run (published:
{published.INVALID:.1%}), costs of the others correlate with {own["pearson"]:.3f}."""


def _plus_minus(values: Sequence[float]) -> str:
    if len(values) < 2:
        return f"{values[0]:.4f}"
    return f"{fmean(values):.4f} ± {stdev(values):.4f}"


def _geometric(values: Sequence[float]) -> float:
    from statistics import geometric_mean

    return geometric_mean(values) if values else float("nan")
