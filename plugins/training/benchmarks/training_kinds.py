"""All kinds of step within limits of memory, beside eager mode and plain `torch.compile`: a table for the documents.

    python -m benchmarks.training_kinds [--backend aot_eager] [--limits 1.0,0.8,0.6,least] [--only TEXT] [--json FILE]
    python -m benchmarks.training_kinds --drawn 0:100 [--backend …]
    python -m benchmarks.training_kinds --programs 0:100 [--backend …]

Right: losses, gradients, parameters, buffers, inputs and random state are those of eager mode. Refused: no plan is
within the limit. At "least" the limit is the least peak that the refusal of an impossible one names.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import torch
from benchmarks.kinds.compare import RAISES, REFUSED, RIGHT, WRONG, EagerModeFails, Outcome, compare
from benchmarks.kinds.drawn import drawn
from benchmarks.kinds.drawn_programs import program
from benchmarks.kinds.kind import KINDS, Kind

FILES = ("buffers", "memories", "changes", "between", "chance", "programs", "loops", "hooks", "recipes")
for _file in FILES:
    importlib.import_module(f"benchmarks.kinds.{_file}")

LIMITS = "1.0,0.8,0.6,least"
IMPOSSIBLE = 1e-6
"""A fraction within which nothing fits, so that the refusal names the least peak."""


def outcomes(kind: Kind, backend: str, limits: str = LIMITS) -> dict[str, Outcome]:
    """What comes of a kind under plain `torch.compile`, and within each limit."""
    found = {"plain": compare(kind, backend)}
    for limit in limits.split(","):
        if limit == "least":
            least = re.search(
                r"(?:at least|least peak of .* is) (\d+) bytes", compare(kind, backend, IMPOSSIBLE).detail
            )
            found[limit] = (
                compare(kind, backend, limit=int(least[1]) + 1024) if least else Outcome(REFUSED, "unknown")
            )
        else:
            found[limit] = compare(kind, backend, float(limit))
    return found


def table(rows: dict[str, dict[str, Outcome]], kinds: Sequence[Kind]) -> str:
    """One row per group: how many kinds, and how many are right, refused, wrong or raise where."""
    groups: dict[str, list[dict[str, Outcome]]] = {}
    for kind in kinds:
        if kind.name in rows:
            groups.setdefault(kind.group, []).append(rows[kind.name])
    limits = list(next(iter(rows.values())))
    lines = [f"| kinds of step | number | {' | '.join(limits)} |", "|---|---|" + "---|" * len(limits)]
    for group, found in groups.items():
        cells = [_cell(Counter(each[limit].word for each in found)) for limit in limits]
        lines.append(f"| {group} | {len(found)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(words: Counter[str]) -> str:
    names = {RIGHT: "right", REFUSED: "refused", WRONG: "wrong", RAISES: "an error"}
    return ", ".join(f"{words[word]} {name}" for word, name in names.items() if words[word])


def _seeds(text: str | None) -> range:
    return range(*map(int, text.split(":"))) if text else range(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="aot_eager")
    parser.add_argument("--limits", default=LIMITS)
    parser.add_argument("--only", default="", help="kinds whose name or group has this text")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--drawn", help="kinds drawn from the seeds A:B, instead of those that people write")
    parser.add_argument("--programs", help="the same, of more that programs do")
    asked = parser.parse_args()
    kinds = [drawn(seed) for seed in _seeds(asked.drawn)] + [program(seed) for seed in _seeds(asked.programs)]
    kinds = kinds or KINDS
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    rows: dict[str, dict[str, Outcome]] = {}
    for kind in kinds:
        if asked.only in f"{kind.group}: {kind.name}":
            try:
                rows[kind.name] = outcomes(kind, asked.backend, asked.limits)
            except EagerModeFails as error:
                if not (asked.drawn or asked.programs):
                    raise
                print(f"{kind.name}: left out, eager mode raises {error}", flush=True)
                continue
            print(
                f"{kind.name}: " + "; ".join(f"{limit}: {each}" for limit, each in rows[kind.name].items()),
                flush=True,
            )
            if asked.json:
                asked.json.write_text(json.dumps(rows, default=vars, indent=1))
    print(table(rows, kinds))


if __name__ == "__main__":
    main()
