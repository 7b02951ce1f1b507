"""Parts of the report of `egrl reproduce mmap`: ablation, speedups, correlation, layout, the shared agent, remarks.

Everything follows from results.json; published numbers are in `egrl.reproduce.mmap.published`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from egrl.reproduce.mmap.plan import AGENT, FULL, UNREVISED
from egrl.reproduce.mmap.published import TABLE3, TABLE3_PROGRAMS, TABLE4, TABLE5

Results = Mapping[str, Any]

FROM_SHARED = "from the shared agent"
PARTS = (
    (UNREVISED, "no-learning", "yes"),
    (UNREVISED, "no-search", "yes"),
    (FULL, UNREVISED, "-"),
    (FULL, "no-learning", "-"),
    (FULL, "no-search", "-"),
    (FULL, "revisions alone", "-"),
)
"""Agents, what each is held against, and what the paper says of it: neither of Figure 7's ablations revises games."""
FEW = 200
"""Games below which a run is said to have hardly begun: the first of nearly every slot begins with random moves."""


def plus_minus(values: Sequence[float]) -> str:
    """The mean, and where there are several values their sample's standard deviation."""
    return f"{fmean(values):.4f}" + (f" ± {stdev(values):.4f}" if len(values) > 1 else "")


def verdict(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Whether the first runs' rewards are above the second's."""
    if min(ours) > max(theirs):
        return "yes"
    return "yes, in the mean" if fmean(ours) > fmean(theirs) else "no"


def games(found: Mapping[str, Any]) -> str:
    """How many games a method's runs measured, or the agent's played, and how many were revised, on average."""
    played = fmean(value or 0 for value in found.get("games", found["evaluations"]))
    revised = fmean(value or 0 for value in found.get("revisions", (0,)))
    return f"{played:,.0f}" + (f", {revised:,.0f} revised" if revised else "")


def _listed(found: Mapping[str, Any]) -> dict[str, list[Any]]:
    """What one run reached, as several do."""
    return {key: [value] for key, value in found.items()}


def claim_row(claim: str, published: str, ours: Sequence[float], theirs: Sequence[float]) -> str:
    """A row of the claims: that the first runs' rewards are above the second's."""
    figures = f"{fmean(ours):.4f} against {fmean(theirs):.4f}"
    return f"| {claim} | {published} | {figures} | {verdict(ours, theirs)} |"


def claims(results: Results) -> Iterator[str]:
    """Rows of the table of claims."""
    found, name = results["ablation"], results["plan"]["ablated"]
    for better, part, published in PARTS:
        figure = " (Figure 7)" if published == "yes" else ""
        claim = f"`{name}`: {better} is better than *{part}*{figure}"
        yield claim_row(claim, published, found[better]["reward"], found[part]["reward"])
    suite = results["suite"]
    count = len(suite["programs"])
    mean = suite["agent"]["mean"]
    yield (
        f"| the agent is quicker than the heuristic on average (Table 3) | {TABLE3['agent']['mean']:.4f} over"
        f" {TABLE3_PROGRAMS} programs | {mean:.4f} over {count} | {'yes' if mean > 1 else 'no'} |"
    )
    groups = {
        group: [found["pearson"] for found in results["correlation"].values() if found["group"] == group]
        for group in ("largest", "smallest")
    }
    known = {group: [value for value in values if value is not None] for group, values in groups.items()}
    if all(known.values()):
        large, small = fmean(known["largest"]), fmean(known["smallest"])
        yield (
            "| reward tells latency better where speedups are large (Table 5) | -0.98 against -0.20 |"
            f" {large:.2f} against {small:.2f} | {'yes' if large < small else 'no'} |"
        )
    agent, heuristic = (layout["come_again"] for layout in results["layout"]["layouts"])
    yield (
        f"| `{results['layout']['program']}`: the agent lets tensors leave fast memory and come again more often"
        f" (Figure 8) | yes | {agent} tensors against {heuristic} | {'yes' if agent > heuristic else 'no'} |"
    )


def ablation(results: Results) -> str:
    """Figure 7."""
    plan, entry = results["plan"], results["programs"][results["plan"]["ablated"]]
    lines = [
        "## Figure 7: what search and learning are worth",
        "",
        f"`{plan['ablated']}`, {plan['seconds']:g} s, seeds 0 to {plan['seeds'] - 1}. *No-learning* searches by the"
        " game's own rules with nothing learned; *no-search* learns by the n-step advantage and plays the policy"
        " network. The paper shows curves only, the full agent's on top. Neither of those two revises games, nor"
        f" does *{UNREVISED}*, by which the paper's claim is judged; *revisions alone* does hardly anything else."
        " Greedy play: a moving mean of the returns of games without noise in the end. Where games are revised, slots"
        " that imitate the best of them teach what is played.",
        "",
        "| agent | reward | lowest | highest | greedy play | games |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for label, found in results["ablation"].items():
        rewards = found["reward"]
        lines.append(
            f"| {label} | {plus_minus(rewards)} | {min(rewards):.4f} | {max(rewards):.4f} |"
            f" {_own(found['greedy_returned'])} | {games(found)} |"
        )
    lines.append(
        f"| heuristic, greedy, bound | {entry['heuristic']['reward']:.4f}, {entry['greedy']['reward']:.4f},"
        f" {entry['bound']['reward']:.4f} | | | | |"
    )
    return "\n".join([*lines, "", "![The agent without parts of it](figures/ablation.png)"])


def speedups(results: Results) -> str:
    """Tables 3 and 4, Figure 10."""
    suite, plan = results["suite"], results["plan"]
    count = len(suite["programs"])
    lines = [
        "## Tables 3 and 4, Figure 10: speedup on every program",
        "",
        f"One run of the agent on each of {count} programs, {plan['suite_seconds']:g} s, seed 0 (the paper: up to 24"
        " hours each). The layout with the best reward against the heuristic's own, on the simulated device; `-prod`"
        " takes the quicker of the two. Means are arithmetic.",
        "",
        f"| agent | published: mean, max, min, improved of {TABLE3_PROGRAMS} | mean | max | min | improved |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for who, label in (("agent", "agent"), ("prod", "`-prod`")):
        told, ours = TABLE3[who], suite[who]
        lines.append(
            f"| {label} | {told['mean']:.4f}, {told['max']:.4f}, {told['min']:.4f}, {told['improved']} |"
            f" {ours['mean']:.4f} | {ours['max']:.4f} | {ours['min']:.4f} | {ours['improved']} of {count} |"
        )
    lines += [
        "",
        "| program | buffers | published | speedup | `-prod` | reward | found by | games |",
        "|---|---:|---:|---:|---:|---:|---|---:|",
    ]
    for name, found in suite["programs"].items():
        published = f"{TABLE4[name]:.4f}" if name in TABLE4 else ""
        lines.append(
            f"| `{name}` | {found['buffers']:,} | {published} | {found['speedup']:.4f} |"
            f" {max(1.0, found['speedup']):.4f} | {found['reward']:.4f} | {found['source']} | {games(_listed(found))} |"
        )
    return "\n".join([*lines, "", "![Speedup on every program](figures/speedups.png)"])


def correlation(results: Results) -> str:
    """Table 5 and Figure 6."""
    lines = [
        "## Table 5 and Figure 6: reward and latency",
        "",
        "The programs with the largest and the smallest speedups. A run's games, revised ones among them, are cut into"
        " ten equal stages in their order; of each the layout with the best reward is taken (the number in the"
        " figure). Pearson's correlation of reward and latency; -1 is best. Revisions find good layouts within seconds,"
        " so that the rewards of most runs hardly differ; over layouts from bad to good, `docs/log/mmap.md`"
        ' ("Reward and latency") has the correlation for every program.',
        "",
        "| program | speedups | speedup | layouts | rewards | correlation | published |",
        "|---|---|---:|---:|---|---:|---:|",
    ]
    for name, found in results["correlation"].items():
        told = f"{TABLE5[name]:.4f}" if name in TABLE5 else ""
        ours = "-" if found["pearson"] is None else f"{found['pearson']:.4f}"
        lines.append(
            f"| `{name}` | {found['group']} | {found['speedup']:.4f} | {len(found['reward'])} |"
            f" {min(found['reward']):.3f} to {max(found['reward']):.3f} | {ours} | {told} |"
        )
    return "\n".join([*lines, "", "![Reward against latency](figures/correlation.png)"])


def layout(results: Results) -> str:
    """Figure 8."""
    found = results["layout"]
    agent, heuristic = found["layouts"]
    lines = [
        "## Figure 8: two layouts",
        "",
        f"`{found['program']}`: the agent's best run (`{found['run']}`, {agent['speedup']:.4f}x; published for"
        f" `alexnet_train_batch_32`: 1.17x) beside the heuristic. In the agent's layout {agent['come_again']} of the"
        f" {agent['tensors']} tensors that lie in fast memory come to it more than once, in the heuristic's"
        f" {heuristic['come_again']} of {heuristic['tensors']}. The agent has {agent['copies']} copies of"
        f" {agent['copied_bytes'] / 2**20:,.0f} MiB and fills fast memory to {agent['mean_share']:.0%} on average,"
        f" the heuristic {heuristic['copies']} of {heuristic['copied_bytes'] / 2**20:,.0f} MiB and"
        f" {heuristic['mean_share']:.0%}.",
    ]
    marked = found["highlighted"]
    if marked is not None:
        lines[-1] += (
            f" T (`{marked['tensor']}`, {marked['size_bytes']:,} bytes) comes to it"
            f" {_times(marked['visits'][0])} in the agent's and {_times(marked['visits'][1])} in the heuristic's."
        )
    return "\n".join([*lines, "", "![Layouts of agent and heuristic](figures/layout.png)"])


def shared(results: Results) -> str:
    """One agent for several programs."""
    found, plan = results["shared"], results["plan"]
    first, deployed = found["generations"]
    lines = [
        "## One agent for several programs (not in the paper)",
        "",
        f"One agent, *{UNREVISED}*, `network.ids=0`, played {found['evaluations']:,} games of"
        f" {', '.join(found['trained_on'])} in {plan['shared_seconds']:g} s; of the policies saved on the way that of"
        f" generation {deployed} was best on"
        f" {', '.join(found['chosen_on'])} and is the one deployed. Below it plays one game of programs that it has not"
        f" seen, without training there (*first*: the first policy that was saved, of generation {first}). Then"
        f" {plan['held_out_seconds']:g} s of `egrl run`, from scratch and from the deployed policy, seed 0, nothing"
        " revised; what that policy took to train is not counted. Rewards:",
        "",
        "| program | random play | first | deployed | from scratch | from the policy | greedy | heuristic |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, entry in found["held_out"].items():
        cells = [entry["random"], entry["first"]["reward"], entry["deployed"]["reward"]]
        cells += [entry[label]["reward"][0] for label in ("from scratch", FROM_SHARED)]
        cells += [entry[who]["reward"] for who in ("greedy", "heuristic")]
        lines.append(f"| `{name}` | " + " | ".join(f"{value:.4f}" for value in cells) + " |")
    lines += ["", "*random play*: mean of 20 games in which every legal action is as likely as the others."]
    return "\n".join([*lines, "", "![From scratch and from the shared agent](figures/held-out.png)"])


def remarks(results: Results) -> str:
    """What the numbers above say about themselves."""
    lines = ["## What to know of this run", ""]
    for name, entry in results["programs"].items():
        agent, bound = entry["methods"][AGENT], entry["bound"]["reward"]
        sources = ", ".join(
            f"{agent['source'].count(source)} of {len(agent['source'])} by {source}"
            for source in dict.fromkeys(agent["source"])
        )
        lines.append(
            f"- `{name}`: the full agent's best mean is {fmean(agent['reward']) / bound:.1%} of the bound; best layouts"
            f" {sources}. Its own play without noise returned {_own(agent['greedy_returned'])} in the end, that of"
            f" *{UNREVISED}* {_own(entry['methods'][UNREVISED]['greedy_returned'])}."
        )
        lines += [
            f"- `{name}`: {who} played {played:,.0f} games a run, fewer than {FEW}; the first one of nearly"
            " every slot began with random moves, so that this says little of how it learns."
            for who, label in (("the full agent", AGENT), (f"*{UNREVISED}*", UNREVISED))
            if (played := fmean(value or 0 for value in entry["methods"][label]["games"])) < FEW
        ]
    programs = results["suite"]["programs"]
    grouped = {name: found["alias_groups"] for name, found in programs.items() if found["alias_groups"]}
    lines.append(
        "- Without alias groups no play comes to a dead end, from which it would have to go back to its backup."
        f" {len(grouped)} of the {len(programs)} programs of Table 3 have some{_counted(grouped)}. What Drop-backup is"
        " worth is asked neither here nor in the paper."
    )
    few = [name for name, found in programs.items() if (found["games"] or 0) < FEW]
    if few:
        lines.append(
            f"- Tables 3 to 5: in {results['plan']['suite_seconds']:g} s the agent played fewer than {FEW} games of"
            f" {len(few)} of {len(programs)} programs; who found each layout stands in the table."
        )
    held = results["shared"]["held_out"]
    better = [name for name, entry in held.items() if entry["deployed"]["reward"] > entry["random"]]
    ahead = [
        name
        for name, entry in held.items()
        if entry[FROM_SHARED]["reward"][0] > entry["from scratch"]["reward"][0]
    ]
    shortest = min(
        entry[label]["evaluations"][0] for entry in held.values() for label in ("from scratch", FROM_SHARED)
    )
    lines.append(
        f"- The shared agent's one game is better than random play on {len(better)} of {len(held)} programs that it has"
        f" not seen, and going on from it ends above starting from scratch on {len(ahead)} of {len(held)} (one seed;"
        f" the shortest of these runs has {shortest:,} games)."
    )
    return "\n".join(lines)


def _counted(counts: Mapping[str, int]) -> str:
    """Names with their counts in brackets, the largest first; of none nothing."""
    ordered = sorted(counts.items(), key=lambda entry: -entry[1])
    return f" ({', '.join(f'`{name}` {count}' for name, count in ordered)})" if ordered else ""


def _own(returned: Sequence[float | None]) -> str:
    """The mean over runs that ended such games."""
    known = [value for value in returned if value is not None]
    return f"{fmean(known):.4f}" if known else "-"


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")
