"""The grammar as a derivation graph, and plans as rows of numbers.

A derivation applies rules until nothing is open. The order does not matter to the plan: with `leftmost` every plan
is derived in one way and the graph is a tree, otherwise any open sub-problem may come next, as in TAG's own graphs
(section 2), and equal partial plans are one vertex.

A plan as a mapping int16 [steps, 1] holds the number of the rule at each step of its leftmost derivation, then -1.
A plan of another size that occurs in plans of this one (a *part*) begins with -2 - its place in `parts`.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Hashable, Iterator, Mapping, Sequence

import numpy as np

from egrl_fft.grammar import Bluestein, Loop, Open, Plan, Rader, Split, expand, rules
from hwsim.problem import Mapping16
from hwsim.stepwise import Pick, RuledDerivation
from workloads.errors import InputError

PART = -2
"""First number of the first part; the next part has one less."""


def children(plan: Plan) -> tuple[Plan, ...]:
    """The sub-plans, in the order in which they are written."""
    match plan:
        case Split(_, _, radix, rest):
            return radix, rest
        case Loop(_, _, inner) | Rader(inner) | Bluestein(_, inner):
            return (inner,)
    return ()


def rebuild(plan: Plan, parts: Sequence[Plan]) -> Plan:
    """The plan with other sub-plans."""
    match plan:
        case Split(direction, sort):
            return Split(direction, sort, parts[0], parts[1])
        case Loop(block, copy):
            return Loop(block, copy, parts[0])
        case Rader():
            return Rader(parts[0])
        case Bluestein(size):
            return Bluestein(size, parts[0])
    return plan


def expand_anywhere(plan: Plan) -> tuple[Plan, ...]:
    """The plans that follow by one rule at any open sub-problem."""
    if isinstance(plan, Open):
        return rules(plan.size, plan.bare)
    inside = children(plan)
    return tuple(
        rebuild(plan, [*inside[:number], new, *inside[number + 1 :]])
        for number, child in enumerate(inside)
        for new in expand_anywhere(child)
    )


@functools.cache
def _reach(size: int, bare: bool) -> tuple[int, int, frozenset[int]]:
    """Steps of the longest derivation, most rules at a step, sizes that occur."""
    steps, most, sizes = 0, len(rules(size, bare)), {size}
    for rule in rules(size, bare):
        length = 0
        for child in children(rule):
            assert isinstance(child, Open)
            inner = _reach(child.size, child.bare)
            length, most = length + inner[0], max(most, inner[1])
            sizes |= inner[2]
        steps = max(steps, length)
    return steps + 1, most, frozenset(sizes)


class PlanGraph(RuledDerivation):
    """Plans of one size (`RuledDerivation` of hwsim/stepwise.py): vertices are partial plans.

    Attributes:
        steps, most_rules: of the longest derivation, and the most rules that there are at a step.
        parts: the sizes of sub-problems other than the whole, falling.
    """

    def __init__(self, size: int, leftmost: bool = False) -> None:
        self.size = size
        self.root: Hashable = Open(size, bare=True)
        self._leftmost = leftmost
        self.steps, self.most_rules, sizes = _reach(size, True)
        self.parts = tuple(sorted(sizes - {size}, reverse=True))

    def successors(self, vertex: Hashable) -> Sequence[Plan]:
        """The plans one rule further; none for a complete one."""
        plan = _plan(vertex)
        return expand(plan) if self._leftmost else expand_anywhere(plan)

    def mapping(self, vertex: Hashable) -> Mapping16 | None:
        """int16 [steps, 1] of a complete plan; None for a partial one."""
        plan = _plan(vertex)
        return None if "?" in str(plan) else self.encode(plan)

    def completion(self, vertex: Hashable, rng: np.random.Generator) -> Mapping16 | None:
        """int16 [steps, 1] of a complete plan below a vertex: a rule drawn uniformly at each open sub-problem.

        In whichever order sub-problems are expanded, this is what uniform choices among successors lead to.
        """
        return self.guided(vertex, lambda _, rules: int(rng.integers(rules)))

    def guided(self, vertex: Hashable, pick: Pick) -> Mapping16:
        """int16 [steps, 1] of a complete plan below a vertex: the rule that is picked at each open sub-problem."""
        return self.encode(_complete(_plan(vertex), pick))

    def chosen(self, mapping: Mapping16) -> Sequence[tuple[Plan, int, int]]:
        """(open sub-problem, how many rules it has, number of the rule) at each step of one mapping [steps, 1]."""
        plan = self.decode(mapping)
        return list(_choices(plan, Open(plan.size, bare=True)))

    def closing(self, goal: Hashable) -> Sequence[int]:
        """The numbers of the rules that leave nothing of an open sub-problem open: codelets."""
        assert isinstance(goal, Open)
        return [number for number, rule in enumerate(rules(goal.size, goal.bare)) if not children(rule)]

    @functools.cached_property
    def order(self) -> tuple[int, ...]:
        """The sizes of all parts, each after those that its rules lead to; the last is the whole."""
        found: dict[int, None] = {}

        def visit(size: int) -> None:
            if size in found:
                return
            for rule in rules(size, True):
                for child in children(rule):
                    visit(child.size)
            found[size] = None

        visit(self.size)
        return tuple(found)

    def composed(self, part: int, kept: Mapping[int, Sequence[Mapping16]]) -> Sequence[Mapping16]:
        """The plans int16 [steps, 1] of a size whose sub-plans are kept ones, with and without wrappers, each once."""
        plans = {size: [self.decode(row) for row in rows] for size, rows in kept.items()}
        found: dict[Plan, None] = {}
        for rule in rules(part, True):
            inside = [_wrap(child, plans[child.size]) for child in children(rule)]
            found |= dict.fromkeys(rebuild(rule, chosen) for chosen in itertools.product(*inside))
        return [self.encode(plan) for plan in found]

    def encode(self, plan: Plan) -> Mapping16:
        """int16 [steps, 1] of a complete plan of this size or of a part.

        Raises:
            InputError: another size, or something in it that the grammar does not propose.
        """
        numbers: list[int] = []
        if plan.size != self.size:
            if plan.size not in self.parts:
                raise InputError(
                    f"plan: expected one of {self.size} points, found one of {plan.size}: {str(plan)[:60]}"
                )
            numbers.append(PART - self.parts.index(plan.size))
        numbers.extend(rule for _, _, rule in _choices(plan, Open(plan.size, bare=True)))
        row = np.full((self.steps, 1), -1, np.int16)
        row[: len(numbers), 0] = numbers
        return row

    def decode(self, mapping: Mapping16) -> Plan:
        """The plan of one mapping int16 [steps, 1]: a number counts modulo the rules at its step, -1 is 0."""
        proposed = iter(mapping[:, 0].tolist())
        size = self.size
        if mapping[0, 0] <= PART:
            size = self.parts[PART - next(proposed)]
        return _derive(Open(size, bare=True), proposed)


def _wrap(goal: Plan, kept: Sequence[Plan]) -> list[Plan]:
    """Plans of an open sub-problem, as they are and in each wrapper that the rules propose there."""
    assert isinstance(goal, Open)
    wrappers = [rule for rule in rules(goal.size, goal.bare) if isinstance(rule, Loop)]
    return [*kept, *(rebuild(wrapper, [plan]) for plan in kept for wrapper in wrappers)]


def _complete(plan: Plan, pick: Pick) -> Plan:
    if isinstance(plan, Open):
        choices = rules(plan.size, plan.bare)
        return _complete(choices[pick(plan, len(choices))], pick)
    inside = children(plan)
    return rebuild(plan, [_complete(child, pick) for child in inside]) if inside else plan


def _plan(vertex: Hashable) -> Plan:
    assert isinstance(vertex, Plan)
    return vertex


def _derive(goal: Open, proposed: Iterator[int]) -> Plan:
    choices = rules(goal.size, goal.bare)
    rule = choices[max(0, next(proposed, 0)) % len(choices)]
    found = []
    for child in children(rule):
        assert isinstance(child, Open)
        found.append(_derive(child, proposed))
    return rebuild(rule, found)


def _choices(plan: Plan, goal: Open) -> Iterator[tuple[Open, int, int]]:
    """(open sub-problem, how many rules it has, number of the rule) at each step of the leftmost derivation."""
    bare = isinstance(plan, Loop | Rader | Bluestein)
    opened = rebuild(plan, [Open(child.size, bare) for child in children(plan)])
    choices = rules(goal.size, goal.bare)
    if opened not in choices:
        raise InputError(
            f"plan: expected what the grammar proposes for {goal.size} points, found {str(plan)[:60]}"
        )
    yield goal, len(choices), choices.index(opened)
    for child in children(plan):
        yield from _choices(child, Open(child.size, bare))
