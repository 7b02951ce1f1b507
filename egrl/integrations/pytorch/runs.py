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

from egrl.integrations.pytorch.asked import Limit
from egrl.integrations.pytorch.plan import Plan
from workloads.errors import InputError
from workloads.text import size_text

SHARES = (1.0, 1.3, 1.7, 2.2, 3.0, 4.0)
"""What a run may take, in shares of what it would if all fell alike: its peak falls less than what it holds."""


@dataclass
class Graph:
    """A planned graph.

    Attributes:
        graph: `TrainingStep.graph`.
        held_bytes: what a run holds after its forward pass, inputs left out.
        parameter_bytes: of this, parameters, which runs may have in common.
        open: runs whose backward pass has not ended.
    """

    name: str
    graph: str
    held_bytes: int
    parameter_bytes: int
    open: int = 0


@dataclass
class OpenRuns:
    """All graphs that were planned within one context, and how many runs of each are open."""

    say: Callable[[str], object]
    limit_bytes: int | None
    graphs: list[Graph] = field(default_factory=list)
    said: bool = False

    def held_bytes(self, but: str = "") -> int:
        """What open runs hold; those of the graph `but` are left out."""
        return sum(each.open * each.held_bytes for each in self.graphs if each.graph != but)

    def counted(self, compiled: Callable[..., Any], graph: Graph) -> Callable[..., Any]:
        """The compiled graph, whose runs are counted."""

        def run(*inputs: Any) -> Any:
            results = compiled(*inputs)
            for each in results if isinstance(results, tuple | list) else (results,):
                if isinstance(each, torch.Tensor) and each.grad_fn is not None:
                    each.grad_fn.register_hook(_Open(self, graph).close)
                    break
            return results

        return run

    def check(self) -> None:
        """Say so, once, if open runs hold more than the limit: a backward pass begins."""
        each_once = sum((each.open - 1) * each.parameter_bytes for each in self.graphs if each.open)
        held = self.held_bytes() - each_once
        if self.said or self.limit_bytes is None or held <= self.limit_bytes:
            return
        self.said = True
        most = max(self.graphs, key=lambda each: each.open)
        self.say(
            f"{most.name}: graphs that are compiled one by one hold {size_text(held)} when the backward pass begins,"
            f" above the limit of {size_text(self.limit_bytes)}; one of them has run {most.open} times: compile the"
            f" whole step as one graph, or plan for so many: memory_limit(..., runs={most.open})"
        )


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


def plan_for_runs(limit: Limit, best: Callable[[Limit], tuple[Plan, int]]) -> tuple[Plan, int]:
    """The fastest plan found of a graph of which `limit.runs` runs are open at once, and what each holds.

    `best` is that of a single run. What the others hold is divided from what a run may take in several ways, of which
    the fastest counts. InputError if no plan is found with which all fit.
    """
    if limit.runs == 1:
        return best(limit)
    others = limit.runs - 1
    whole, held = best(replace(limit, bytes=None, fraction=1.0))
    all_bytes = whole.all_peak_bytes + others * held
    room = limit.bytes if limit.fraction is None else int(limit.fraction * all_bytes)
    assert room is not None
    free = room - limit.reserved
    found: list[tuple[Plan, int]] = []
    for share in SHARES:
        single = min(
            free, int(share * free * (whole.all_peak_bytes - limit.reserved) / (all_bytes - limit.reserved))
        )
        elsewhere = free - single if room < all_bytes else others * held
        asked = replace(
            limit,
            bytes=room,
            fraction=None,
            reserved=limit.reserved + elsewhere,
            held_bytes=elsewhere // others,
            seconds=limit.seconds / len(SHARES),
        )
        with contextlib.suppress(InputError):
            plan, held = best(asked)
            if others * held <= elsewhere:
                # nothing is proved of how best to divide the limit
                bound = plan.bound_seconds if room >= all_bytes else 0.0
                peak = plan.peak_bytes - elsewhere + others * held
                plan = replace(
                    plan, peak_bytes=peak, all_peak_bytes=all_bytes, limit_bytes=room, bound_seconds=bound
                )
                found.append((plan, held))
        if room >= all_bytes:
            break
    if not found:
        raise InputError(
            f"{whole.name}: expected a limit within which {limit.runs} runs of one graph fit, found"
            f" {size_text(room)}; keeping every value they take {size_text(all_bytes)}"
        )
    return min(found, key=lambda each: each[0].seconds)
