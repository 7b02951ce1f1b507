"""Checkpoints that are signed again with content that no run leaves."""

from __future__ import annotations

import copy
import random
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.soaking.trial import Outcome, Subject, child, fresh, one_line, wait
from egrl.runs import checkpoint

VALUES: tuple[Any, ...] = (
    "text", "", [], {}, None, True, -1, 2**40, 10**30, float("nan"), float("inf"), [[]], {"a": 1},
    np.zeros((3, 3), np.float32), np.zeros((0,)), np.full((2, 2, 2), np.nan), np.array(-7), np.array(["x"]),
)  # fmt: skip


def places(node: Any, where: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value of a tree."""
    if where:
        yield where
    pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in pairs:
        yield from places(value, (*where, key))


def impossible(rng: random.Random, all_of: Sequence[Subject], cases: int, folder: Path) -> Iterator[Outcome]:
    """Another value at a random place of a checkpoint; the run goes on or is refused in one line."""
    for case in range(cases):
        subject = all_of[case % len(all_of)]
        if fault := subject.prepare(folder):
            yield Outcome(subject.name, fault)
            continue
        out, log = fresh(subject, "impossible"), folder / "impossible.log"
        shutil.copytree(subject.whole, out)
        newest = checkpoint.listing(out / "checkpoint")[-1][1]
        tree = checkpoint.loads(newest.read_bytes(), "soak")
        part = rng.choice(["loop", "method", ""])  # a method's state has many more places than the loop's
        found = [at for at in places(tree) if not part or at[0] == part]
        at, value = rng.choice(found), rng.choice(VALUES)
        newest.write_bytes(checkpoint.dumps(changed(tree, at, value)))
        before = (out / "metrics.csv").read_bytes()
        argv = ["run", "--resume", str(out), "--gens", "7", "--quiet", *subject.again]
        code, said = wait(child(argv, log), log, 60.0)
        fault = one_line(code, said, (0, 2))
        if code == 2 and (out / "metrics.csv").read_bytes() != before:
            fault = fault or "metrics.csv was changed"
        yield Outcome(f"{subject.name}: {'.'.join(map(str, at))} = {value!r:.40}", fault)


def changed(tree: dict[str, Any], where: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """A copy of a tree with another value at one place."""
    tree = copy.deepcopy(tree)
    node = tree
    for key in where[:-1]:
        node = node[key]
    node[where[-1]] = value
    return tree
