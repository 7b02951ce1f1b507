"""Graphs that run several times before their backward pass, as layers do that are compiled one by one.

What such a run keeps is there while the next ones run. How many are open is counted where they run; a plan for so many
leaves room for what the others hold.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from egrl_training.pytorch.asked import Limit
from egrl_training.pytorch.plan import Plan
from workloads.errors import InputError
from workloads.text import size_text

SHARES = (1.0, 1.3, 1.7, 2.2, 3.0, 4.0)
"""Ways to divide a limit: what one run may take at its peak, over its part if all that runs take fell alike. The peak
of one falls less than what the others hold."""
COMPILED = "CompiledFunction"
"""The names of autograd's nodes of compiled graphs begin like this."""


@dataclass
class Graph:
    """A planned graph.

    Attributes:
        graph: `TrainingStep.graph`.
        left_bytes: what a run leaves in memory after its forward pass: values kept, outputs and parameters, no inputs.
        parameter_bytes: of this, parameters.
        open: runs whose backward pass has not ended.
    """

    name: str
    graph: str
    left_bytes: int
    parameter_bytes: int
    open: int = 0


@dataclass
class OpenRuns:
    """All graphs that were planned within one context, and how many runs of each are open.

    Attributes:
        say: gets a line for people.
        limit_bytes: what all of them may take; None if each has a fraction of its own.
        parameters: bytes by address, of the parameters that graphs ran with.
    """

    say: Callable[[str], object]
    limit_bytes: int | None
    graphs: list[Graph] = field(default_factory=list)
    parameters: dict[int, int] = field(default_factory=dict)
    said: bool = False

    def left_bytes(self, but: str = "") -> int:
        """What open runs hold, each with parameters of its own; those of the graph `but` are left out."""
        return sum(each.open * each.left_bytes for each in self.graphs if each.graph != but)

    def counted(self, compiled: Callable[..., Any], graph: Graph) -> Callable[..., Any]:
        """The compiled graph, whose runs are counted."""

        def run(*inputs: Any) -> Any:
            results = compiled(*inputs)
            if (node := _node_of(results)) is not None:
                node.register_hook(_Open(self, graph).close)
                if self.limit_bytes is not None and not self.said:
                    given = (each for each in inputs if isinstance(each, torch.nn.Parameter))
                    self.parameters |= {each.data_ptr(): each.nbytes for each in given}
            return results

        return run

    def check(self) -> None:
        """Say so, once, if open runs hold more than the limit: a backward pass begins."""
        if self.said or self.limit_bytes is None:
            return
        kept = sum(each.open * (each.left_bytes - each.parameter_bytes) for each in self.graphs)
        held = kept + sum(self.parameters.values())
        if held <= self.limit_bytes:
            return
        self.said = True
        most = max(self.graphs, key=lambda each: each.open)
        several = f", or plan for {most.open} runs of one: memory_limit(..., runs={most.open})"
        self.say(
            f"{most.name}: graphs that are compiled one by one hold {size_text(held)} when the backward pass begins,"
            f" above the limit of {size_text(self.limit_bytes)}: compile the whole step as one graph"
            f"{several if most.open > 1 else ''}"
        )


def _node_of(results: Any) -> Any:
    """The node of autograd that runs the backward pass of a compiled graph; None if it has none.

    PyTorch makes outputs that are views anew, behind that node.
    """
    given = results if isinstance(results, tuple | list) else (results,)
    nodes = [each.grad_fn for each in given if isinstance(each, torch.Tensor) and each.grad_fn is not None]
    behind = [before for node in nodes for before, _ in node.next_functions if before is not None]
    for node in (*nodes, *behind):
        if type(node).__name__.startswith(COMPILED):
            return node
    return None


class _Open:
    """A run of a graph, from its forward pass until its backward pass ends, or nobody can ask for it any more."""

    def __init__(self, runs: OpenRuns, graph: Graph) -> None:
        self._runs, self._graph, self._is_open = runs, graph, True
        graph.open += 1

    def close(self, *_: object) -> None:
        if self._is_open:
            self._runs.check()
            self._is_open = False
            self._graph.open -= 1

    def __del__(self) -> None:
        if self._is_open:
            self._is_open = False
            self._graph.open -= 1


def plan_for_runs(
    limit: Limit, best: Callable[[Limit], tuple[Plan, int]], parameter_bytes: int, gradient_bytes: int
) -> tuple[Plan, int]:
    """The fastest plan found of a graph of which `limit.runs` runs are open at once, and what each holds.

    `best` is that of a single run, and what it holds between its passes. Each run has parameters of its own, which have
    so many bytes, and leaves so many of gradients. InputError if no plan is found with which all fit.
    """
    if limit.runs == 1:
        return best(limit)

    def taken(held: int) -> int:
        """By the other runs: each waits for its backward pass, or that is done and its gradients are there."""
        return (limit.runs - 1) * (parameter_bytes + max(held - parameter_bytes, gradient_bytes))

    whole, held = best(replace(limit, bytes=None, fraction=1.0))
    others = all_others = taken(held)
    all_bytes = whole.all_peak_bytes + others
    room = limit.bytes if limit.fraction is None else max(1, int(limit.fraction * all_bytes))
    assert room is not None
    free, all_free = room - limit.reserved, all_bytes - limit.reserved
    found: list[tuple[Plan, int]] = []
    for share in SHARES if room < all_bytes else SHARES[:1]:
        if room < all_bytes:
            others = free - min(free, int(share * free * (all_free - all_others) / all_free))
        asked = replace(
            limit,
            bytes=room,
            fraction=None,
            reserved=limit.reserved + others,
            held_bytes=others // (limit.runs - 1) if room < all_bytes else None,
            seconds=limit.seconds / len(SHARES),
        )
        with contextlib.suppress(InputError):
            plan, held = best(asked)
            if taken(held) <= others:
                peak = plan.peak_bytes - others + taken(held)
                # nothing is proved of how best to divide the limit
                bound = plan.bound_seconds if room >= all_bytes else 0.0
                plan = replace(
                    plan, peak_bytes=peak, all_peak_bytes=all_bytes, limit_bytes=room, bound_seconds=bound
                )
                found.append((plan, held))
    if not found:
        raise InputError(
            f"{whole.name}: expected a limit within which {limit.runs} runs of one graph fit, found"
            f" {size_text(room)}; keeping every value they take {size_text(all_bytes)}"
        )
    return min(found, key=lambda each: each[0].seconds)
