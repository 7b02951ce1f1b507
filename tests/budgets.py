"""Budgets of seconds that tests give: a machine may have done nothing by then, since it compiles or is busy.

Found in the syntax of a file: keywords, keys of dictionaries, and words of command lines with a number in them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

AT_ONCE_S, ENOUGH_S = 1e-6, 5.0
"""Budgets of at most the first are over at the first look, on every machine; from the second on they are let pass."""
NAME = re.compile(r"(\w+_)?seconds(_per_\w+)?|time_limit_s|(\w+_)?timeout(_\w+)?_s")
"""As the product's options and parameters are called that end something."""
NO_BUDGET = {
    "checkpoint_seconds",
    "op_seconds",
    "log_seconds",
    "model_seconds",
    "recompute_seconds",
    "all_seconds",
}
"""How often something is written; seconds that something took."""
OF_RESULTS = {"evaluations", "plan", "node", "peak_bytes", "best"}
"""Keys and keywords beside which seconds are those of a result."""
FLAG = re.compile(r"--(?P<name>([a-z]+-)*seconds(-[a-z]+)*)")
WORD = re.compile(
    rf"(?:^|(?<=[\s.]))(?:{FLAG.pattern} |(?P<key>{NAME.pattern})=)(?P<value>\d[\d.e+-]*)(?=\s|$)"
)
EXCEPTIONS = {
    ("test_evaluator.py", "timeout_floor_s=0.5"): "of boards that hang for an hour",
    ("test_pytorch.py", "bound_seconds=1.06"): "of a plan that is shown",
    ("test_compare.py", "seconds=4.0"): "of a result",
}
"""Name of a file and budget: why it is none, or no outcome hangs on it."""
SUSPECT = re.compile(r"(seconds|seconds[_-]per[_-]\w+|_s)[\"']?\s*[=:, ]\s*[\"']?([0-4](?!\d)|\.\d)")
"""What files without it have no such budget: to parse all takes seconds."""


@dataclass(frozen=True)
class Budget:
    """One that is too short, by the file, line and words that pass it."""

    file: Path
    line: int
    words: str

    def __str__(self) -> str:
        return (
            f"{self.file}:{self.line}: {self.words} ends wherever the machine is by then: give evaluations or steps, a"
            f" clock of tests/clocks.py, or {ENOUGH_S:g} s and more to what ends by itself"
        )


def short(value: float) -> bool:
    """Whether a machine decides what is done within so many seconds."""
    return AT_ONCE_S < value < ENOUGH_S


def short_budgets(file: Path, text: str) -> list[Budget]:
    """Those that a text of Python passes, the listed ones included."""
    if not SUSPECT.search(text):
        return []
    found = {(line, words) for node in ast.walk(ast.parse(text)) for line, words in _passed(node)}
    return [Budget(file, line, words) for line, words in sorted(found)]


def _passed(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and words of each short budget that a node itself passes."""
    if isinstance(node, ast.Call):
        yield from _named([(word.arg, word.value) for word in node.keywords if word.arg])
    elif isinstance(node, ast.Dict):
        yield from _named(
            [(key.value, value) for key, value in zip(node.keys, node.values, strict=True) if _is_text(key)]
        )
    elif _is_text(node):
        for at in WORD.finditer(node.value):
            if _counts(at["name"] or at["key"]) and short(_number(at["value"])):
                yield node.lineno, at[0]
    if isinstance(node, ast.List | ast.Tuple | ast.Call):
        for flag, value in pairwise(node.args if isinstance(node, ast.Call) else node.elts):
            if not (_is_text(flag) and _is_text(value)):
                continue
            at = FLAG.fullmatch(flag.value)
            if at and _counts(at["name"]) and short(_number(value.value)):
                yield value.lineno, f"{flag.value} {value.value}"


def _named(given: list[tuple[str, ast.expr]]) -> Iterator[tuple[int, str]]:
    if OF_RESULTS & {name for name, _ in given}:
        return
    for name, value in given:
        number = value.value if isinstance(value, ast.Constant) else None
        if NAME.fullmatch(name) and _counts(name) and isinstance(number, int | float) and short(number):
            yield value.lineno, f"{name}={number}"


def _counts(name: str) -> bool:
    return name.replace("-", "_") not in NO_BUDGET


def _is_text(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
