"""Plans as texts: `str` of a plan writes it, `parse` reads it (`egrl_fft/grammar.py` says what the signs mean).

`tree` shows a plan to people, in words.
"""

from __future__ import annotations

import re

from egrl_fft.derivation import children
from egrl_fft.grammar import (
    MOST,
    Bluestein,
    Codelet,
    Loop,
    Open,
    Plan,
    Rader,
    Split,
    has_codelet,
    prime_factors,
)
from hwsim.sections import Branch
from workloads.errors import InputError

_TOKEN = re.compile(
    r"(?P<codelet>\d{1,15})|(?P<open>\?(\d{1,15})(!?))|(?P<split>[ft]s?)\(|(?P<loop>[lc]\d{1,15})\(|(?P<rader>r)\(|"
    r"(?P<z>z\d{1,15})\("
)
DEEPEST = 200


def parse(text: str, where: str = "plan") -> Plan:
    """The plan that a text writes; `str(parse(text)) == text`.

    Raises:
        InputError: it is no plan; the line says where it ends to be one.
    """
    plan, end = _parse(text, 0, where, 0)
    if end != len(text):
        raise InputError(
            f"{where}: expected the end of the plan at character {end}, found {text[end : end + 20]!r}"
        )
    return plan


def _parse(text: str, at: int, where: str, depth: int) -> tuple[Plan, int]:
    token = _TOKEN.match(text, at)
    if token is None or depth > DEEPEST:
        raise InputError(
            f"{where}: expected a plan such as 16, f(R,M), ts(R,M), l8(P), c1(P), r(P) or z37(P) at character {at}, "
            f"found {text[at : at + 20]!r}"
        )
    kind, word, end = token.lastgroup, token.group().rstrip("("), token.end()
    if kind == "codelet":
        return _check(Codelet(int(word)), has_codelet(int(word)), "the size of a codelet", where), end
    if kind == "open":
        return Open(int(word.strip("?!")), word.endswith("!")), end
    first, end = _parse(text, end, where, depth + 1)
    plan: Plan
    if kind == "split":
        rest, end = _parse(text, _expect(text, end, ",", where), where, depth + 1)
        plan = Split("f" if word[0] == "f" else "t", word.endswith("s"), first, rest)
        _check(plan, min(first.size, rest.size) > 1 and plan.size <= 4 * MOST, "factors above 1", where)
    elif kind == "loop":
        plan = _check(
            Loop(int(word[1:]), word[0] == "c", first), int(word[1:]) > 0, "a block of at least 1", where
        )
    elif kind == "rader":
        plan = Rader(first)
        _check(plan, plan.size > 2 and len(prime_factors(plan.size)) == 1, "an odd prime less 1", where)
    else:
        plan = Bluestein(int(word[1:]), first)
        _check(
            plan, plan.size > 1 and first.size >= 2 * plan.size - 1, "at least 2 n - 1 points inside", where
        )
    return plan, _expect(text, end, ")", where)


def _expect(text: str, at: int, sign: str, where: str) -> int:
    if text[at : at + 1] != sign:
        raise InputError(f"{where}: expected {sign!r} at character {at}, found {text[at : at + 20]!r}")
    return at + 1


def _check(plan: Plan, holds: bool, expected: str, where: str) -> Plan:
    if not holds:
        raise InputError(f"{where}: expected {expected}, found {str(plan)[:60]}")
    return plan


def tree(plan: Plan) -> Branch:
    """The plan, what it does in words, and the plans that it is made of."""
    return Branch(f"{plan.size} points: {_words(plan)}", [tree(part) for part in children(plan)])


def _words(plan: Plan) -> str:
    match plan:
        case Codelet():
            return "compiled code"
        case Split(direction, sort, radix, rest):
            way = "frequency" if direction == "f" else "time"
            between = "sorted" if sort else "in blocks"
            return f"split {radix.size} x {rest.size}, decimation in {way}, results between {between}"
        case Loop(block, copy):
            return f"{block} at a time, input {'copied together first' if copy else 'where it lies'}"
        case Rader():
            return "Rader: by a cyclic convolution of one less"
        case Bluestein(_, inner):
            return f"Bluestein: by a convolution of {inner.size}"
    return "open"
