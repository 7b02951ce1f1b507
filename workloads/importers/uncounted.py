"""What nobody can count of a model, said in one line or refused: the same for every format.

Of an op of unknown work only its memory traffic counts. A few such ops hardly change a mapping; where they have more
than 5 % of all bytes, or could multiply matrices, whatever is found would be found on wrong sizes.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from workloads.errors import InputError
from workloads.programs.program import Program
from workloads.workload import Workload

MOST_SHARE = 0.05
"""The largest share of bytes read and written that ops of unknown work may have."""
NAMED = 5
"""Kinds or tensors that a line names before it counts the others."""
LONGEST_NAME = 60
"""Characters of a name in a line."""


@dataclass(frozen=True)
class Uncounted:
    """An op of unknown work.

    Attributes:
        kind: what the line calls it.
        size_bytes: bytes that it reads and writes.
        has_matrices: it reads a weight of two or more axes, or two matrices, or multiplies what has no known size.
    """

    kind: str
    size_bytes: float
    has_matrices: bool


def account(found: Sequence[Uncounted], total_bytes: float, source: str, allowed: bool) -> list[str]:
    """The remark on ops of unknown work, of a model whose ops read and write `total_bytes`; none where there are none.

    Raises:
        InputError: there are too many of them, or one could be a matrix product, and that is not `allowed`.
    """
    if not found:
        return []
    what = _listed(Counter(each.kind for each in found))
    share = sum(each.size_bytes for each in found) / max(1.0, total_bytes)
    matrices = Counter(each.kind for each in found if each.has_matrices)
    if not allowed and (share > MOST_SHARE or matrices):
        why = f"that could multiply matrices: {names(list(matrices))}"
        raise InputError(
            f"{source}: expected ops whose work is known, found {what},"
            f" {why if matrices else f'with {share:.0%} of all bytes'}; --allow-unknown of `egrl import` counts their"
            " time as memory traffic alone"
        )
    return [f"{what}: their time counts as memory traffic alone"]


def on_constants(kinds: Counter[str]) -> list[str]:
    """The remark on ops of unknown work that read constants alone, by kind; none where there are none."""
    once = (
        "read constants alone: each counts as done before the first inference, and what it makes as a weight"
    )
    return [f"{_listed(kinds)} {once}"] if kinds else []


def _listed(kinds: Counter[str]) -> str:
    """Ops of unknown work, by kind, in words."""
    named = names([f"{kind} x{count}" if count > 1 else kind for kind, count in kinds.items()])
    return f"{counted(kinds.total(), 'op')} of {counted(len(kinds), 'kind')} of unknown work ({named})"


Remarked = TypeVar("Remarked", Workload, Program)


def warned(found: Remarked, file: str) -> Remarked:
    """A workload or program that was read from a file, after its remarks were logged."""
    for remark in found.remarks:
        logging.getLogger("egrl").warning("egrl: %s: %s", file, remark)
    return found


def counted(number: int, noun: str) -> str:
    """A number of things: 1 op, 2 ops."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def names(given: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    shown = [
        name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 3]}..." for name in given[:NAMED]
    ]
    more = f" and {len(given) - NAMED} more" if len(given) > NAMED else ""
    return ", ".join(shown) + more


def amount(number: float) -> str:
    """A count to three digits: 4.09 G, 25.5 M, 17."""
    for size, unit in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.0f}"
