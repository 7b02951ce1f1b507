"""The glossary of a page: the meanings of the words that the page uses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from hwsim.problem import About
from hwsim.sections import Bars, Lines, MemoryMaps, Section, Table

TITLE = "Words"
MEANINGS = {
    "speedup": "the baseline's cost / the cost of the mapping: 1.05x takes 1 / 1.05 of the time",
    "bound": "no mapping costs less than this; it is proven, for the costs of the model",
    "best possible": "what the best of all mappings would cost; the bound is at most that",
    "evaluations": "mappings that were measured or modelled, each counted once",
    "mapping": "a choice for every decision: which memory a tensor lies in, which chip an op runs on",
    "op": "one operation of the network: a convolution, a matrix product, an addition",
    "weight": "the constants of an op, as trained",
    "activation": "what an op computes and others read",
    "dram": "the large, slow memory outside the chip",
    "llc": "last-level cache: a memory on the chip, shared by its engines",
    "sram": "the fastest memory, beside the engines; it is small",
    "mac": "the multiply array: the op's own computing takes longest",
    "dsp": "the vector engine: the op's own computing takes longest",
    "overhead": "starting the op takes longer than its work",
    "source": "the part of the method that proposed a mapping",
    "start": "the mapping that the search began with",
    "network": "among sources: proposed by a policy network of the population",
    "boltzmann": "proposed by a member of the population that is a table of preferences, not a network",
    "exact": "proposed by the solver of the chip file's model",
    "nominal": "the solution of the chip file's model, before anything was learned of the board",
    "learner": "proposed by the network that learns by gradients (SAC)",
    "twin": "proposed by the learned model of the board",
    "profile model": "proposed by the learned model of the time of every op, or of loads or instructions",
    "fingerprint": "a digest of all that a cost depends on: equal fingerprints, comparable runs",
}
"""One sentence per word, in the order of a page."""


def glossary(about: About, sections: Sequence[Section], rule: str, given: bool) -> Table:
    """The words that the sections use, and what the baseline is.

    `rule` made the baseline; `given`: the user brought it.
    """
    said = {word for text in _texts(sections) for word in re.findall(r"[a-z]+", text.lower())}
    rows = [
        [word, meaning]
        for word, meaning in MEANINGS.items()
        if all(part in said or f"{part}s" in said for part in word.split())
    ]
    name = f"{about.baseline_name}, the baseline" if about.stands_for else about.baseline_name
    return Table(
        TITLE,
        "",
        [("word", ""), ("meaning", "")],
        [[name, f"the mapping to beat: {_baseline_words(about, rule, given)}"], *rows],
    )


def _baseline_words(about: About, rule: str, given: bool) -> str:
    if given:
        return f"{about.baseline_name}, which --baseline names"
    if about.stands_for:
        return (
            f"that of the built-in baseline heuristic '{rule}', which takes the place of {about.stands_for}; give the"
            " mapping that yours makes by --baseline FILE"
        )
    if about.baseline_name == "the compiler":
        return "what the chip's compiler would choose by its own rules"
    return f"{about.baseline_name}, which the problem brings with it"


def _texts(sections: Sequence[Section]) -> Iterator[str]:
    """Titles, sentences, names of columns, series and memories, and the words in tables."""
    for section in sections:
        yield f"{section.title} {section.says}"
        match section:
            case Table():
                yield from (name for name, _ in section.columns)
                yield from {cell for row in section.rows for cell in row if isinstance(cell, str)}
            case Bars():
                yield from (*section.names, *section.series)
            case Lines():
                yield from (section.y, *section.levels, *(line.label for line in section.lines))
            case MemoryMaps():
                yield from {each.memory for each in section.maps}
