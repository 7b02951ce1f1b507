"""The report of `egrl reproduce mmap`: the published numbers beside ours, everything made of results.json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import fmean, geometric_mean
from typing import Any

from egrl.reproduce.mmap import sections
from egrl.reproduce.mmap.plan import AGENT, REVISE, UNREVISED
from egrl.reproduce.mmap.published import TABLE2
from egrl.reproduce.mmap.sections import plus_minus as _mean

ORDERINGS = (
    (UNREVISED, "es", "the agent beats evolution strategies"),
    (UNREVISED, "random", "the agent beats random play"),
    ("es", "random", "evolution strategies beat random play"),
)
"""What the paper says, of the agent that is nearest to its own."""
HEURISTIC = "heuristic"

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
    fewer = ""
    if plan["unrevised_seeds"] != plan["seeds"]:
        fewer = f" (*{UNREVISED}*: {plan['unrevised_seeds']} a program, but for `{plan['ablated']}`)"
    alone = ""
    if REVISE in plan["methods"]:
        alone = f" `{REVISE}`, which the paper does not have, revises games\nfrom greedy play, and does nothing else."
    return f"""# The MMapGame reproduced

*Optimizing memory mapping using deep reinforcement learning* (MMapGame, MMap-MuZero): Tables 2 to 5, Figures 5 to 8
and 10. Made by `egrl reproduce mmap`.

**What was run.** Programs {programs} on chip `tpuv4i`; each method {plan["seconds"]:g} s of searching,
{threads}; seeds 0 to {plan["seeds"] - 1}{fewer}, cold start{settings}. Rewards are
the return over the most that fast memory could save; ± is the sample's standard deviation over seeds. Speedups over all
programs are of one run of {plan["suite_seconds"]:g} s each.

**The agent** is method `muzero`. Beside playing and planning it *revises* its best games: simulated annealing by the
game's own rules, hundreds to thousands of games a second, which the paper's agent does not do. *{UNREVISED}* is the
agent without revisions, and without the slots that imitate what they found; the paper's claims are judged by it. It,
too, is otherwise than the paper's agent in what `docs/explanations/muzero.md` lists: Gumbel MuZero with fewer
simulations for PUCT with 400, a potential, a discount that grows, a coarser map, tensors that are held are seen.

**The rivals.** `random` wishes for each buffer what it likes and plays what is legal in its place, which earns a little
more than the paper's even draws of legal moves. `es` perturbs the weights of one graph network that decides for all
buffers; of the paper's evolution strategies it is known that they search the space of actions and make local changes,
which on large programs should be a weaker rival.{alone}

**What can be compared.** The paper's programs are not public: those here have their names and about their numbers of
buffers, and are otherwise this package's own. Its rewards are normalised in a way that it does not state, its times
are measured on a TPUv4i, and its agent is trained for up to 24 hours on hardware that it does not name. So rewards
cannot agree; what can are orderings."""


def _claims(results: Results) -> str:
    lines = [
        "## What holds and what does not",
        "",
        f"The paper's claims; its agent is *{UNREVISED}*, but for speedups, correlations and layouts, which are the"
        " full agent's.",
        "",
        "| claim | published | here | holds here |",
        "|---|---|---|---|",
    ]
    for program, entry in results["programs"].items():
        methods, published = entry["methods"], TABLE2.get(program, {})
        for ours, theirs, claim in ORDERINGS:
            if {ours, theirs} <= methods.keys():
                told = (
                    f"{published[_paper(ours)]:.2f} against {published[_paper(theirs)]:.2f}"
                    if published
                    else "-"
                )
                rewards = methods[ours]["reward"], methods[theirs]["reward"]
                lines.append(sections.claim_row(f"`{program}`: {claim}", told, *rewards))
    lines += [*sections.claims(results), "", *_rivals(results)]
    return "\n".join(lines)


def _paper(label: str) -> str:
    """What the paper's table calls what is run here."""
    return AGENT if label == UNREVISED else label


def _rivals(results: Results) -> Iterator[str]:
    """The full agent against everything else, by the mean over its seeds."""
    others = [label for label in _labels(results) if label != AGENT] + [HEURISTIC]
    yield "The full agent's rewards against those of the others (*above*: each seed; *in the mean*: not each):"
    yield ""
    yield "| program | " + " | ".join(_shown(label) for label in others) + " |"
    yield "|---" * (len(others) + 1) + "|"
    for program, entry in results["programs"].items():
        ours, cells = entry["methods"][AGENT]["reward"], []
        for label in others:
            theirs = [entry[HEURISTIC]["reward"]]
            if label in entry["methods"]:
                theirs = entry["methods"][label]["reward"]
            word = {"yes": "above", "no": "not above"}.get(
                sections.verdict(ours, theirs), "above in the mean"
            )
            cells.append(f"{word} ({fmean(ours) - fmean(theirs):+.4f})")
        yield f"| `{program}` | " + " | ".join(cells) + " |"


def _labels(results: Results) -> list[str]:
    """What was run on the programs of Table 2: methods, and the agent without revisions."""
    return list(next(iter(results["programs"].values()))["methods"])


def _shown(label: str) -> str:
    return f"*{label}*" if label in (UNREVISED, HEURISTIC) else f"`{label}`"


def _table(results: Results) -> str:
    labels = _labels(results)
    head = [
        "program",
        "buffers",
        *(_shown(label) for label in labels),
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
        cells += [_mean(entry["methods"][label]["reward"]) for label in labels]
        cells += [f"{entry[name]['reward']:.4f}" for name in ("greedy", HEURISTIC)]
        cells += [f"{entry['bound']['reward']:.4f}", published]
        lines.append("| " + " | ".join(cells) + " |")
    lines += [
        "",
        "*greedy*: the best of 52 plays of the greedy player, each at other prices of room and copies."
        " *heuristic*: the production heuristic's own layout, which may do what no play can.",
        "",
        "Games in these seconds, means over seeds. What is revised is played again in part, and most of it is never"
        " measured:",
        "",
        "| program | " + " | ".join(_shown(label) for label in labels) + " |",
        "|---" * (len(labels) + 1) + "|",
    ]
    for program, entry in results["programs"].items():
        counts = [sections.games(entry["methods"][label]) for label in labels]
        lines.append(f"| `{program}` | " + " | ".join(counts) + " |")
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
            f"| `{program}` | {reward:.4f} | {_shown(method)} | {bound['reward']:.4f} |"
            f" {bound['reward'] / reward - 1:.1%} | {bound['seconds']:.0f} | {bound['proof']} |"
        )
    return "\n".join(lines)


def _best(entry: Mapping[str, Any]) -> tuple[float, str]:
    return max((max(found["reward"]), method) for method, found in entry["methods"].items())


def _latency(results: Results) -> str:
    methods = _labels(results)
    lines = [
        "## What latency says",
        "",
        "Speedup of the layout with the best reward over the heuristic's own layout, on the simulated device, where"
        " copies contend with instructions; mean over seeds. `-prod` takes the quicker of the two, so that it is never"
        " below 1 (mean over programs: arithmetic, as in the paper's Table 3).",
        "",
        "| program | heuristic, us | " + " | ".join(_shown(m) for m in methods) + " |",
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
