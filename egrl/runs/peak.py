"""What fills each memory at its fullest step: by name, and what of it nobody reads any more.

A weight that stays in a memory from one inference to the next is read by its own op alone: after that step it takes
room for nothing in this inference. An activation is held until its last reader has run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hwsim.capabilities import HasLifetimes, Lifetime
from hwsim.problem import Mapping16, Problem
from workloads.errors import InputError
from workloads.text import size_text

NOW, LATER, DONE = "in use", "read later", "no longer read"
USES = (NOW, LATER, DONE)
"""What a tensor is held for at a step."""
NAMED = 4
"""Tensors that a sentence names."""


@dataclass(frozen=True)
class Peak:
    """A memory at its fullest step, the first of those that are equally full.

    Attributes:
        memory, capacity_bytes: the memory's.
        step: the name of the node that runs.
        tensors: what it holds then, the largest first.
        uses: of each tensor, one of `USES`.
    """

    memory: str
    capacity_bytes: int
    step: str
    tensors: tuple[Lifetime, ...]
    uses: tuple[str, ...]

    @property
    def held_bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.size_bytes for tensor in self.tensors)

    def bytes_of(self, use: str) -> int:
        """Bytes of the tensors that are held for that."""
        pairs = zip(self.tensors, self.uses, strict=True)
        return sum(tensor.size_bytes for tensor, its in pairs if its == use)

    @property
    def text(self) -> str:
        """A sentence about the step: the largest tensors by name, and bytes that nobody reads any more."""
        named = [
            f"{tensor.head} of {tensor.node} ({size_text(tensor.size_bytes)})" for tensor in self.tensors
        ]
        more = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
        done = self.bytes_of(DONE)
        rest = f"; {size_text(done)} of it no longer read in this inference" if done else ""
        return f"{self.memory} is fullest while {self.step} runs: {', '.join(named[:NAMED])}{more}{rest}"

    @property
    def document(self) -> dict[str, Any]:
        """The same as JSON can hold it."""
        return {
            "memory": self.memory,
            "op": self.step,
            "held_bytes": self.held_bytes,
            **{f"{use.replace(' ', '_')}_bytes": self.bytes_of(use) for use in USES},
            "tensors": [
                {"op": tensor.node, "head": tensor.head, "size_bytes": tensor.size_bytes, "use": use}
                for tensor, use in zip(self.tensors, self.uses, strict=True)
            ],
        }


def peaks(problem: Problem, mapping: Mapping16) -> list[Peak]:
    """The fullest step of each memory that one mapping [N, H], as it stands, puts tensors in; the slowest first.

    Raises:
        InputError: the problem cannot say where its tensors live and when.
    """
    if not isinstance(problem, HasLifetimes):
        raise InputError(f"expected a problem with lifetimes of tensors, found {problem.about.name!r}")
    lifetimes, nodes = problem.lifetimes(mapping), problem.space.nodes
    at = {name: number for number, name in enumerate(nodes)}
    staying = {tensor.head for tensor in lifetimes if tensor.first < at[tensor.node]}
    found = []
    for number, (name, capacity) in enumerate(problem.memories()):
        here = [tensor for tensor in lifetimes if tensor.memory == number]
        if here:
            step = _fullest(here, len(nodes))
            held = sorted((t for t in here if t.first <= step <= t.last), key=lambda t: -t.size_bytes)
            uses = tuple(_use(tensor, at[tensor.node], step, tensor.head in staying) for tensor in held)
            found.append(Peak(name, capacity, nodes[step], tuple(held), uses))
    return found


def _fullest(tensors: Sequence[Lifetime], steps: int) -> int:
    change = np.zeros(steps + 1, np.int64)
    for tensor in tensors:
        change[tensor.first] += tensor.size_bytes
        change[tensor.last + 1] -= tensor.size_bytes
    return int(np.cumsum(change[:-1]).argmax())


def _use(tensor: Lifetime, node: int, step: int, stays: bool) -> str:
    """What a tensor of node number `node` is held for; `stays`: as weights do, from one inference to the next."""
    if node == step or (not stays and tensor.last == step):
        return NOW
    return DONE if stays and node < step else LATER
