"""The contract of boards: a board measures one mapping at a time and gives an `Answer`.

`egrl/measure/board_process.py` is a board behind a script, `egrl/measure/evaluator.py` has one behind a function.
docs/guides/boards.md describes it for users.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard

from hwsim.problem import Status
from workloads.names import visible

SHORTEST_LATENCY_S, LONGEST_LATENCY_S = 1e-12, 1e9
"""A latency is at least the first and below the second: nothing that runs takes less than a picosecond."""
MOST_SAMPLES = 100_000
EXCERPT = 120
ID = "ID"
"""What messages have in place of a request's id, which is drawn at random."""
LEAST_ID, IDS = 2**52, 2**52
"""The least id, and how many there are: all have 16 digits, and are exact as a number of any language."""
_LIKE_ID = re.compile(r"(?<![\d.])[4-9]\d{15}(?!\.?\d)")
_READ = 1 << 16
"""So many characters of a value are looked at for an excerpt."""
ANSWERS = frozenset({"latency_s", "invalid", "error"})
"""Keys of answers; an answer has exactly one of them."""


@dataclass(frozen=True)
class Answer:
    """What a board said of one mapping.

    Attributes:
        status: ok, invalid or failed.
        samples_s: latencies measured, at least one where ok.
        epsilon: share of the bytes that had to move, where invalid.
        reason: why it failed.
        op_seconds: what it said of single ops, as it came (`egrl/measure/op_seconds.py` reads it); None: nothing.
    """

    status: Status
    samples_s: tuple[float, ...] = ()
    epsilon: float = 0.0
    reason: str = ""
    op_seconds: Any = None


class BoardFailure(Exception):
    """A request that got no usable answer; the message says why in one line. The process is still good."""


class BoardDied(BoardFailure):
    """The process ended or could not be started."""


class BoardSilent(BoardFailure):
    """No answer in time; the process has been ended."""


class Board(Protocol):
    """Measures one mapping at a time; used by one thread."""

    def measure(self, request: Mapping[str, Any], timeout_s: float) -> Answer:
        """The answer to a request (without its id). Raises BoardFailure."""

    def close(self) -> None: ...


def excerpt(value: Any) -> str:
    """A value on one line, cut to `EXCERPT` characters, all of them printable (so that UTF-8 has each of them)."""
    return _cut(_text(value))


def quoted(value: Any) -> str:
    """An excerpt of what a board said.

    What looks like an id of a request, of this one or an earlier one, is replaced by `ID` before the text is cut: ids
    are others in every run, and nobody should be able to guess them from what is shown.
    """
    return _cut(_LIKE_ID.sub(ID, _text(value)))


Quote = Callable[[Any], str]
"""How a message shows a value: `excerpt` what is the user's own, `quoted` what is a board's."""


def _text(value: Any) -> str:
    try:
        return value if isinstance(value, str) else repr(value)
    except Exception:  # of an integer of thousands of digits, or an object of the caller's
        return f"an object of type {type(value).__name__}"


def _cut(text: str) -> str:
    line = visible(" ".join(text[:_READ].split()))
    return line if len(line) <= EXCERPT else line[: EXCERPT - 3] + "..."


def parse_answer(line: str, number: int) -> Answer | None:
    """The answer to request `number` in a line; None where the line is noise or answers another request.

    Raises BoardFailure where it is an answer to this request that says nothing usable.
    """
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or type(document.get("id")) is not int or document["id"] != number:
        return None
    return answer_of(document)


def check_meant(line: str) -> None:
    """BoardFailure if a line that answers no request looks as if it were meant as an answer: a bare number, or an
    answer without an id.
    """
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return
    unnamed = isinstance(document, dict) and "id" not in document and document.keys() & ANSWERS
    if unnamed or _is_number(document):
        raise BoardFailure(
            f'expected an answer such as {{"id": {ID}, "latency_s": 0.001}}, found {quoted(line)}'
        )


def answer_of(document: Mapping[str, Any], quote: Quote = quoted) -> Answer:
    """The answer in an object; error messages show parts of it by `quote`.

    Raises BoardFailure where it has no usable latency_s, invalid or error.
    """
    if "error" in document:
        return Answer(Status.FAILED, reason=quote(document["error"]))
    if document.get("invalid"):
        epsilon = document.get("epsilon")
        if not _is_number(epsilon) or not 0 <= epsilon <= 1:
            raise BoardFailure(f"expected an epsilon of 0 to 1 with invalid, found {quote(epsilon)}")
        return Answer(Status.INVALID, epsilon=float(epsilon))
    found = document.get("latency_s")
    given = found if isinstance(found, list | tuple) else [found]
    samples = tuple(float(s) for s in given if _is_number(s) and SHORTEST_LATENCY_S <= s < LONGEST_LATENCY_S)
    if not 0 < len(samples) == len(given) <= MOST_SAMPLES:
        raise BoardFailure(f"expected latency_s above 0, invalid or error, found {quote(dict(document))}")
    return Answer(Status.OK, samples, op_seconds=document.get("op_seconds"))


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
