"""Parts of the report of `egrl reproduce mmap`: ablation, speedups, correlation, layout, the shared agent, remarks.

Everything follows from results.json; published numbers are in `egrl.reproduce.mmap_published`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from egrl.reproduce.mmap_published import TABLE3, TABLE3_PROGRAMS, TABLE4, TABLE5

Results = Mapping[str, Any]

FULL, FROM_SHARED = "full agent", "from the shared agent"
PARTS = (
    (FULL, "no-revision", "-"),
    (FULL, "no-learning", "yes"),
    (FULL, "no-search", "yes"),
    ("no-revision", "no-learning", "yes"),
    ("no-revision", "no-search", "yes"),
    (FULL, "no-learning, revised", "-"),
    (FULL, "revisions alone", "-"),
)
"""Agents, what each is held against, and what the paper says of it; *no-revision* is the paper's own agent."""
FEW = 200
"""Games below which a run is said to have hardly begun: a tenth of them began with random moves."""


def plus_minus(values: Sequence[float]) -> str:
    """The mean, and where there are several values their sample's standard deviation."""
    return f"{fmean(values):.4f}" + (f" ± {stdev(values):.4f}" if len(values) > 1 else "")


def judged(claim: str, published: str, ours: Sequence[float], theirs: Sequence[float]) -> str:
    """A row of the claims: that the first runs' rewards are above the second's."""
    a, b = fmean(ours), fmean(theirs)
    verdict = "yes" if min(ours) > max(theirs) else "yes, in the mean" if a > b else "no"
    return f"| {claim} | {published} | {a:.4f} against {b:.4f} | {verdict} |"


def claims(results: Results) -> Iterator[str]:
    """Rows of the table of claims."""
    found, name = results["ablation"], results["plan"]["ablated"]
    for better, part, published in PARTS:
        figure = " (Figure 7)" if published == "yes" else ""
        claim = f"`{name}`: {better} is better than *{part}*{figure}"
        yield judged(claim, published, found[better]["reward"], found[part]["reward"])
    suite = results["suite"]
    count = len(suite["programs"])
    for who in ("agent", "prod"):
        label = "the agent is quicker than the heuristic on average" if who == "agent" else "`-prod` likewise"
        mean = suite[who]["mean"]
        yield (
            f"| {label} (Table 3) | {TABLE3[who]['mean']:.4f} over {TABLE3_PROGRAMS} programs |"
            f" {mean:.4f} over {count} | {'yes' if mean > 1 else 'no'} |"
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
        " network. The paper shows curves only, the full agent's on top. Its agent is *no-revision*, and neither of"
        " those two revises games; *no-learning, revised* does, and *revisions alone* does hardly anything else. Greedy"
        " play: a moving mean of the returns of games without noise in the end, which no revision has a part in.",
        "",
        "| agent | reward | lowest | highest | greedy play | games |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for label, found in results["ablation"].items():
        rewards = found["reward"]
        lines.append(
            f"| {label} | {plus_minus(rewards)} | {min(rewards):.4f} | {max(rewards):.4f} |"
            f" {_own(found['greedy_returned'])} | {fmean(found['evaluations']):,.0f} |"
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
        "| program | buffers | published | speedup | `-prod` | reward | games |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, found in suite["programs"].items():
        published = f"{TABLE4[name]:.4f}" if name in TABLE4 else ""
        lines.append(
            f"| `{name}` | {found['buffers']:,} | {published} | {found['speedup']:.4f} |"
            f" {max(1.0, found['speedup']):.4f} | {found['reward']:.4f} | {found['evaluations']:,} |"
        )
    return "\n".join([*lines, "", "![Speedup on every program](figures/speedups.png)"])


def correlation(results: Results) -> str:
    """Table 5 and Figure 6."""
    lines = [
        "## Table 5 and Figure 6: reward and latency",
        "",
        "The programs with the largest and the smallest speedups. A run's games, in their order, are cut into ten equal"
        " stages; of each the layout with the best reward is taken (the number in the figure), so that rewards differ"
        " as training goes on. Pearson's correlation of reward and latency; -1 is best.",
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
        f"One agent, `network.ids=0`, played {found['evaluations']:,} games of {', '.join(found['trained_on'])} in"
        f" {plan['shared_seconds']:g} s; of the policies saved on the way that of generation {deployed} was best on"
        f" {', '.join(found['chosen_on'])} and is the one deployed. Below it plays one game of programs that it has not"
        f" seen, without training there (*first*: the policy of generation {first}, which has hardly learned). Then"
        f" {plan['held_out_seconds']:g} s of `egrl run`, from scratch and from the deployed policy, seed 0; what"
        " that policy took to train is not counted. Rewards:",
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
        agent = entry["methods"].get("muzero")
        if agent is None:
            continue
        mean = fmean(agent["reward"])
        others = {
            method: fmean(found["reward"]) for method, found in entry["methods"].items() if method != "muzero"
        }
        levels = {"greedy": entry["greedy"]["reward"], "heuristic": entry["heuristic"]["reward"]}
        ranks = {f"`{method}`": value for method, value in others.items()} | levels
        above = [who for who, value in ranks.items() if mean > value]
        below = [who for who, value in ranks.items() if mean <= value]
        sources = ", ".join(
            f"{agent['source'].count(source)} of {len(agent['source'])} by {source}"
            for source in dict.fromkeys(agent["source"])
        )
        places = [f"{word} {', '.join(who)}" for word, who in (("above", above), ("not above", below)) if who]
        games = fmean(agent["evaluations"])
        lines.append(
            f"- `{name}`: the agent proposed {games:,.0f} games a run{_hardly(games)}, and played for"
            f" {_own(entry['played']['greedy_returned'])} without noise in the end; its best mean is"
            f" {mean / entry['bound']['reward']:.1%} of the bound, {'; '.join(places)}. Best layouts: {sources}."
        )
    few = [name for name, found in results["suite"]["programs"].items() if found["evaluations"] < FEW]
    if few:
        lines.append(
            f"- Tables 3 to 5: fewer than {FEW} games fitted into {results['plan']['suite_seconds']:g} s of"
            f" {', '.join(f'`{name}`' for name in few)}. The first games of a run begin with random moves, so that"
            " these speedups say little of the agent."
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


def _own(returned: Sequence[float | None]) -> str:
    """The mean over runs that ended such games."""
    known = [value for value in returned if value is not None]
    return f"{fmean(known):.4f}" if known else "-"


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def _hardly(games: float) -> str:
    return (
        f" (fewer than {FEW}, the first of them begun at random: that says little of it)"
        if games < FEW
        else ""
    )
