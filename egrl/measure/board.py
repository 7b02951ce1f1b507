"""The contract of boards: a board measures one mapping at a time and gives an `Answer`.

`egrl/measure/board_process.py` is a board behind a script, `egrl/measure/evaluator.py` has one behind a function.
docs/guides/boards.md describes it for users.

Profiles, `op_seconds`, that boards and callers give with a latency: checked, and converted to a problem's parts.

    a list     seconds of each part, in the order of the problem's parts; null where it is not known
    a table    seconds by name: of a part, or of several that ran as one ("conv1+relu1")

If a part is named more than once, its time is the sum. The seconds of several parts together are divided among them in
proportion to the problem's own model, since only their sum is measured. Seconds that belong to no part are overhead and
are not kept. A profile that makes no sense is dropped, with one line per reason; its latency still counts.
"""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Protocol, TypeGuard

import numpy as np

from hwsim.capabilities import HasParts, Parts
from hwsim.problem import Floats, Problem, Profiles, Status
from workloads.errors import InputError, Notice
from workloads.text import visible

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
        retry: True if the board says that it failed for now, and is worth another try.
        board: which board it was, as that says itself; "": it does not.
        op_seconds: what it said of single ops, as it came (`egrl/measure/board.py` reads it); None: nothing.
    """

    status: Status
    samples_s: tuple[float, ...] = ()
    epsilon: float = 0.0
    reason: str = ""
    retry: bool = False
    board: str = ""
    op_seconds: Any = None


class BoardFailure(Exception):
    """A request that got no usable answer; the message says why in one line. The process is still good."""


class BoardDied(BoardFailure):
    """The process ended or could not be started."""


class BoardSilent(BoardFailure):
    """No answer in time; the process has been ended."""


class BoardGarbled(BoardDied):
    """No answer in time, but something that is none; the process has been ended."""


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
    board = quote(document["board"]) if document.get("board") is not None else ""
    if "error" in document:
        again = document.get("retry") is True
        return Answer(Status.FAILED, reason=quote(document["error"]), retry=again, board=board)
    if document.get("invalid"):
        epsilon = document.get("epsilon")
        if not _is_number(epsilon) or not 0 <= epsilon <= 1:
            raise BoardFailure(f"expected an epsilon of 0 to 1 with invalid, found {quote(epsilon)}")
        return Answer(Status.INVALID, epsilon=float(epsilon), board=board)
    found = document.get("latency_s")
    given = found if isinstance(found, list | tuple) else [found]
    samples = tuple(float(s) for s in given if _is_number(s) and SHORTEST_LATENCY_S <= s < LONGEST_LATENCY_S)
    if not 0 < len(samples) == len(given) <= MOST_SAMPLES:
        raise BoardFailure(f"expected latency_s above 0, invalid or error, found {quote(dict(document))}")
    return Answer(Status.OK, samples, board=board, op_seconds=document.get("op_seconds"))


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


MAX_SUM_OF_LATENCY = 1.5
"""The parts of a sum, or the largest of parts, may exceed the latency by this factor: profilers slow ops down."""
MAX_LISTED = 3
"""So many unknown names are listed."""

Profile = tuple[float | None, ...]
"""Seconds of each part, None where it is not known; (): no profile."""
ReadProfile = Callable[[Any, float], Profile]
"""(what was given as op_seconds, None for nothing; the latency beside it in seconds) -> the profile."""


def no_profile(given: Any, latency_s: float) -> Profile:
    """Whatever is given, no profile."""
    return ()


class ProfileReader:
    """Reads what boards give as profiles of one problem. Used by several threads."""

    def __init__(self, problem: Problem, log: Callable[[str], None], quote: Quote = excerpt) -> None:
        """`log` gets one line for each reason why a profile was dropped, and one for names that are unknown.

        These show what was given by `quote`.
        """
        self._name, self._log, self._quote = problem.about.name, log, quote
        self._parts = problem.parts if isinstance(problem, HasParts) else None
        names = () if self._parts is None else self._parts.names
        self._number = {name: number for number, name in enumerate(names)}
        self._said: set[str] = set()

    def beside(self, modelled: Profiles | None) -> ReadProfile:
        """A reader of profiles of one mapping; the model predicts float32 [1, P] for it, or None."""
        model = None if modelled is None else modelled[0].astype(np.float64)
        return lambda given, latency_s: self.read(given, latency_s, model)

    def read(self, given: Any, latency_s: float, model: Floats | None = None) -> Profile:
        """The profile in `given`; () if there is none, or it makes no sense. `model` is float64 [P], seconds."""
        if given is None:
            return ()
        try:
            return self._read(given, latency_s, model)
        except _Refused as reason:
            self._say(reason.kind, f"op_seconds: {reason}; such profiles are dropped, the latencies count")
            return ()

    def demand(self, given: Any, latency_s: float, modelled: Profiles | None, where: str) -> Profile:
        """As `beside`, but InputError that begins with `where`, where `given` makes no sense."""
        try:
            return self._read(given, latency_s, None if modelled is None else modelled[0].astype(np.float64))
        except _Refused as reason:
            raise InputError(f"{where}: {reason}") from None

    def _read(self, given: Any, latency_s: float, model: Floats | None) -> Profile:
        """The profile in `given`. Raises _Refused if it makes no sense."""
        if self._parts is None:
            raise _Refused("parts", f"expected none for {self._name}, whose costs have no parts")
        named = _named(given, self._parts, self._quote)
        _check_total(list(named.values()), latency_s, self._parts)
        return _profile(self._gathered(named, model, self._parts))

    def _gathered(self, named: Mapping[str, float], model: Floats | None, parts: Parts) -> Floats:
        """float64 [P], NaN where nothing is known."""
        found, unknown = np.full(len(parts), np.nan), []
        for name, seconds in named.items():
            at = self._parts_in(name, parts)
            known = [p for p in at if p is not None]
            if len(known) < len(at):
                unknown.append(name)
            if known and not math.isnan(seconds):
                found[known] = np.nan_to_num(found[known]) + seconds * _shares(known, model)
        if unknown:
            more = f" … ({len(unknown)} names)" if len(unknown) > MAX_LISTED else ""
            listed = ", ".join(map(self._quote, unknown[:MAX_LISTED])) + more
            self._say("unknown", f"op_seconds: no parts of {self._name}, counted as overhead: {listed}")
        return found

    def _parts_in(self, name: str, parts: Parts) -> list[int | None]:
        """The numbers of the parts that a name names, once each; None for what is unknown."""
        if name in self._number or parts.whole != "sum":
            return [self._number.get(name)]
        return list(dict.fromkeys(self._number.get(piece.strip()) for piece in name.split("+")))

    def _say(self, kind: str, text: str) -> None:
        if kind not in self._said:
            self._said.add(kind)
            self._log(text)
            warnings.warn(text, Notice, stacklevel=2)


class _Refused(Exception):
    """A profile that makes no sense, and the kind of reason."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


def _named(given: Any, parts: Parts, quote: Quote) -> dict[str, float]:
    """Seconds by name, NaN where they are not known. Raises _Refused if it is no profile."""
    if isinstance(given, np.ndarray):
        given = given.tolist()
    if isinstance(given, Mapping):
        if odd := [name for name in given if not isinstance(name, str)]:
            raise _Refused("names", f"expected names, found {quote(odd[0])}")
        return {name: _seconds(name, value, quote) for name, value in given.items()}
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise _Refused("form", f"expected a list or a table, found {quote(given)}")
    if len(given) != len(parts):
        raise _Refused(
            "length", f"expected a list of {len(parts)}, a number or null for each, found {len(given)}"
        )
    return {name: _seconds(name, value, quote) for name, value in zip(parts.names, given, strict=True)}


def _seconds(name: str, value: Any, quote: Quote) -> float:
    if value is None:
        return math.nan
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise _Refused("number", f"expected seconds or null for {quote(name)}, found {quote(value)}")
    try:
        seconds = float(value)
    except OverflowError:  # an integer beyond all floats
        seconds = math.inf
    if not (math.isnan(seconds) or 0 <= seconds < LONGEST_LATENCY_S):
        raise _Refused("range", f"expected 0 or more seconds for {quote(name)}, found {quote(value)}")
    return seconds


def _check_total(seconds: Sequence[float], latency_s: float, parts: Parts) -> None:
    known = [s for s in seconds if not math.isnan(s)]
    whole = math.fsum(known) if parts.whole == "sum" else max(known, default=0.0)
    if whole > MAX_SUM_OF_LATENCY * latency_s:
        what = "a sum" if parts.whole == "sum" else "parts"
        raise _Refused(
            "total",
            f"expected {what} of at most {MAX_SUM_OF_LATENCY:g} times the latency, {latency_s:g} s, found {whole:g} s",
        )


def _shares(known: Sequence[int], model: Floats | None) -> Floats:
    """float64 [K], the share of each of K parts in what they took together."""
    weight = np.ones(len(known)) if model is None else np.nan_to_num(model[list(known)])
    total = weight.sum()
    return np.asarray(weight / total if total > 0 else np.full(len(known), 1 / len(known)))


def _profile(seconds: Floats) -> Profile:
    """Rounded, so that a profile is the same after it was written to a file; () if nothing is known."""
    if np.isnan(seconds).all():
        return ()
    return tuple(None if math.isnan(s) else float(f"{s:.6g}") for s in seconds.tolist())


def mean_profile(profiles: Sequence[Profile]) -> Profile:
    """The mean of several profiles of one mapping, part by part, of those in which a part is known."""
    found = [as_floats(profile) for profile in profiles if profile]
    if len(found) < 2:
        return next((profile for profile in profiles if profile), ())
    known = ~np.isnan(found)
    return _profile(
        np.where(known, found, 0.0).sum(axis=0) / np.where(known.any(axis=0), known.sum(axis=0), np.nan)
    )


def as_floats(profile: Profile) -> Floats:
    """float64 [P], NaN where a part is not known."""
    return np.array([math.nan if s is None else s for s in profile], np.float64)


def as_rows(profiles: Sequence[Profile]) -> Profiles | None:
    """float32 [B, P] of B profiles, NaN where nothing is known; None if none of them has any."""
    parts = max((len(profile) for profile in profiles), default=0)
    if not parts:
        return None
    blank: Profile = (None,) * parts
    return np.array([as_floats(profile or blank) for profile in profiles], np.float32)
