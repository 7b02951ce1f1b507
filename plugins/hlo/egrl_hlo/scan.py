"""A line of HLO text and a position in it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from egrl_hlo import layout
from egrl_hlo.layout import PLAIN, Layout

_SPACE = re.compile(r"(?:\s|/\*.*?\*/)*", re.DOTALL)
_BRACKET = re.compile(r'[(){}\[\]"]|/\*')
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_PAIRS = {"(": ")", "{": "}", "[": "]"}
_VALUE = re.compile(r'[,(){}\[\]"]|/\*')


class Fault(Exception):
    """What is wrong with the text, without file and line."""


class Line:
    """Text that is read from left to right; spaces and comments are skipped before every token."""

    def __init__(self, text: str, at: int = 0) -> None:
        self.text = text
        self.at = at

    def skip(self) -> int:
        """The position of the next token."""
        found = _SPACE.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
        return self.at

    def peek(self) -> str:
        """The next character, "" at the end."""
        return self.text[self.skip() : self.at + 1]

    def take(self, mark: str) -> bool:
        """Whether the next token is `mark`, which is then behind the position."""
        if self.text.startswith(mark, self.skip()):
            self.at += len(mark)
            return True
        return False

    def expect(self, mark: str) -> None:
        if not self.take(mark):
            raise Fault(f"expected {mark!r}, found {self.here()}")

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """The pattern at the position, which moves behind it."""
        found = pattern.match(self.text, self.skip())
        if found is not None:
            self.at = found.end()
        return found

    def here(self) -> str:
        """What is at the position, for a message."""
        rest = self.text[self.skip() :].split("\n", 1)[0]
        return repr(rest if len(rest) <= 40 else f"{rest[:37]}...") if rest else "the end"

    def group(self) -> str:
        """The text of the bracketed group that begins at the position, brackets included."""
        begin = self.skip()
        end = closing(self.text, begin)
        if end is None:
            raise Fault(
                f"expected brackets that close, found none that closes {self.here()}: cut off or damaged"
            )
        self.at = end
        return self.text[begin:end]

    def value(self) -> str:
        """The text up to the next comma outside brackets and strings, or to the end."""
        begin = at = self.skip()
        while (found := _VALUE.search(self.text, at)) is not None and found[0] not in (",", ")", "}", "]"):
            end = closing(self.text, found.start())
            if end is None:
                raise Fault(f"expected {found[0]!r} to be closed, found the line's end: cut off or damaged")
            at = end
        self.at = len(self.text) if found is None else found.start()
        return self.text[begin : self.at].strip()


def closing(text: str, at: int) -> int | None:
    """The position behind the group, string or comment that begins at `at`; None where it does not end."""
    if text[at] == '"':
        found = _STRING.match(text, at)
        return None if found is None else found.end()
    if text.startswith("/*", at):
        end = text.find("*/", at + 2)
        return None if end < 0 else end + 2
    open_marks: list[str] = []
    while True:
        found = _BRACKET.search(text, at)
        if found is None:
            return None
        mark = found[0]
        if mark in _PAIRS:
            open_marks.append(_PAIRS[mark])
            at = found.end()
        elif mark in ('"', "/*"):
            inner = closing(text, found.start())
            if inner is None:
                return None
            at = inner
        else:
            if not open_marks or mark != open_marks.pop():
                return None
            at = found.end()
            if not open_marks:
                return at


_ARRAY = re.compile(r"([a-z][a-z0-9]*)\[([^\]\[(){}]*)\]")
_BITS = re.compile(r"(?:bf|tf|[csuf])(\d{1,4})(?:e\d+m\d+[a-z0-9]*)?")
_NO_DATA = ("token", "opaque")
MAX_BITS = 1024
"""Widest element that is believed."""


@dataclass(frozen=True)
class Array:
    """An array: the width of its elements (0 for tokens), its dimensions (bounds where these are dynamic), and how it
    lies in memory."""

    bits: int
    dims: tuple[int, ...] = ()
    layout: Layout = PLAIN

    @property
    def elements(self) -> int:
        return math.prod(self.dims)

    @property
    def size_bytes(self) -> int:
        """What it takes in memory, with the holes of its tiles."""
        if not self.bits or not self.elements:
            return 0
        return -(-self.layout.elements(self.dims) * self.bits // 8) + self.layout.before_bytes


Shape = Array | tuple["Shape", ...]


def leaves(shape: Shape) -> list[Array]:
    """The arrays of a shape, in order."""
    return [shape] if isinstance(shape, Array) else [leaf for part in shape for leaf in leaves(part)]


def parse(line: Line) -> Shape:
    """The shape at the line's position, which moves behind it and its layout."""
    if line.take("("):
        parts: list[Shape] = []
        while not line.take(")"):
            parts.append(parse(line))
            if not line.take(","):
                line.expect(")")
                break
        return tuple(parts)
    found = line.match(_ARRAY)
    if found is None:
        raise Fault(f"expected a shape, found {line.here()}")
    lies = layout.read(line.group()) if line.peek() == "{" else PLAIN
    return Array(_bits(found[1], lies), _dims(found[2]), lies)


def _bits(name: str, lies: Layout) -> int:
    if name in _NO_DATA:
        return 0
    if 0 < lies.element_bits <= MAX_BITS:
        return lies.element_bits
    if name == "pred":
        return 8
    found = _BITS.fullmatch(name)
    if found is None or not 0 < int(found[1]) <= MAX_BITS:
        raise Fault(f"expected an element type, found {name!r}")
    return int(found[1])


def _dims(text: str) -> tuple[int, ...]:
    if not text.strip():
        return ()
    dims = []
    for part in text.split(","):
        size = part.strip().removeprefix("<=")
        if not size.isascii() or not size.isdigit() or len(size) > 18:
            raise Fault(f"expected dimensions of known sizes, found [{text[:40]}]")
        dims.append(int(size))
    return tuple(dims)
