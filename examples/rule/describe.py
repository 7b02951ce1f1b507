"""A network on a chip and a shipped rule as the text that rule.c and rule.py read; --table: a table of the rule."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np

from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.place_features import FEATURE_NAMES, MEANING
from hwsim.nnpi.tables import Tables, build_tables
from policies.shipped import rules
from workloads.load import load


def coefficients(rule: np.ndarray) -> list[list[str]]:
    """For each feature: of weights at the slow and the fast end of the memories, and of activations."""
    return [[str(value) for value in row] for row in rule[:-1].reshape(4, -1).T]


def lines(tables: Tables, rule: np.ndarray) -> Iterator[str]:
    def rows(*columns: np.ndarray) -> Iterator[str]:
        return (" ".join(map(repr, row)) for row in zip(*(c.tolist() for c in columns), strict=True))

    t, reader = tables, np.repeat(np.arange(len(tables.compute_s)), np.diff(tables.edge_start))
    once = t.weight_read_bytes // t.steps
    held = (t.compute_s, t.weight_bytes, once, t.steps, t.passes, t.activation_bytes)
    yield f"memories {len(t.capacity_bytes)} into {t.into} launch_s {t.launch_s!r}"
    yield from rows(t.capacity_bytes, t.bandwidth_Bps)
    yield f"ops {len(t.compute_s)} edges {len(t.edge_bytes)}"
    yield from rows(*held, t.written_bytes, t.external_bytes, 1 * t.is_output, 1 * t.rearranges)
    yield from rows(t.edge_source, reader, t.edge_bytes)
    for name, own in zip(FEATURE_NAMES, coefficients(rule), strict=True):
        yield " ".join([name, *own])
    yield f"free {rule[-1]!s}"


def table(rule: np.ndarray) -> Iterator[str]:
    yield "| feature | weights, slow | weights, fast | activations, slow | activations, fast | what it is |"
    yield "|---|---|---|---|---|---|"
    for (name, meaning), own in zip(MEANING.items(), coefficients(rule), strict=True):
        seen = ["(activations)" not in meaning] * 2 + ["(weights)" not in meaning] * 2
        cells = [f"{float(value):.2f}" if has else "" for value, has in zip(own, seen, strict=True)]
        yield f"| `{name}` | {' | '.join(cells)} | {meaning} |"


def main(argv: list[str]) -> int:
    """Arguments: a workload, a chip and the number of a shipped rule, or --table."""
    workload, chip, number = [*argv, *("resnet50", "nnpi", "1")[len(argv) :]]
    rule = rules(FEATURE_NAMES, 2)[int(number) - 1]
    if argv == ["--table"]:
        print(*table(rule), sep="\n")
    else:
        print(*lines(build_tables(load(workload), load_chip(chip)), rule), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
