"""Does a plan keep a training step within its limit? Slow and obvious; it shares no code with the simulator.

It plays the step: a set of what is in memory, changed op by op. The rules are those in `hwsim/training/problem.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hwsim.problem import Violation
from workloads.training_step import Op, TrainingStep

NAMES = 3
"""Storages that a violation names, the largest first."""


@dataclass(frozen=True)
class Moment:
    """One run of an op: its name, "forward" or "backward", and what is in memory meanwhile.

    Attributes:
        here: positions of the values whose storages are in memory.
        copies: those of which there is a second one, since they were saved and are made again.
        total_bytes: of both, and of scratch.
    """

    op: str
    turn: str
    here: frozenset[int]
    copies: frozenset[int]
    total_bytes: int


def judge(step: TrainingStep, limit_bytes: int, reserved_bytes: int, plan: Sequence[int]) -> list[Violation]:
    """Everything that a plan breaks, one number per candidate of the step (0: recompute, 1: keep); empty: all is well.

    Of each stretch of runs above the limit the worst is named.

    Raises:
        ValueError: another number of decisions.
    """
    candidates = list(step.candidates)
    if len(plan) != len(candidates):
        raise ValueError(f"plan: expected {len(candidates)} decisions, received {len(plan)}")
    wrong = [
        Violation("no such choice", step.values[value].name, float(choice), 1.0, "")
        for value, choice in zip(candidates, plan, strict=True)
        if choice not in (0, 1)
    ]
    if wrong:
        return wrong
    kept = {value for value, choice in zip(candidates, plan, strict=True) if choice == 1}
    found: list[Violation] = []
    worst: tuple[int, Moment] | None = None
    for moment in play(step, kept):
        total = moment.total_bytes + reserved_bytes
        if total > limit_bytes:
            worst = (total, moment) if worst is None or total > worst[0] else worst
        elif worst is not None:
            found.append(_too_much(step, *worst, limit_bytes))
            worst = None
    return found if worst is None else [*found, _too_much(step, *worst, limit_bytes)]


def _too_much(step: TrainingStep, total: int, moment: Moment, limit_bytes: int) -> Violation:
    largest = sorted(moment.here, key=lambda storage: -step.values[storage].size_bytes)[:NAMES]
    names = ", ".join(f"{step.values[storage].name} {step.values[storage].size_bytes}" for storage in largest)
    where = f"{moment.op} in the {moment.turn} pass (largest: {names})"
    return Violation("memory", where, float(total), float(limit_bytes), "bytes")


def play(step: TrainingStep, kept: set[int]) -> list[Moment]:
    """Every run of the step, in order, if the values `kept` are kept where they are needed."""
    storages = [number if value.view_of < 0 else value.view_of for number, value in enumerate(step.values)]
    maker = {number: op for op in step.ops for number in op.outputs}
    position = {op.name: at for at, op in enumerate(step.ops)}
    works = [op for op in step.ops if not op.outputs or step.values[op.outputs[0]].view_of < 0]
    backward_ops = [op for op in works if op.phase == "backward"]

    def reads(op: Op) -> set[int]:
        return {storages[number] for number in op.inputs}

    def is_of_forward(storage: int) -> bool:
        return storage in maker and maker[storage].phase != "backward"

    def is_kept(storage: int) -> bool:
        size, once = step.values[storage].size_bytes, not maker[storage].recomputable
        return storage in kept or size == 0 or once

    # What the backward pass needs, and what of that is saved.
    gradients = {storages[number] for number in step.gradients}
    waiting = set(gradients).union(*(reads(op) for op in backward_ops))
    needed: set[int] = set()
    while waiting:
        storage = waiting.pop()
        if storage in needed or not is_of_forward(storage):
            continue
        needed.add(storage)
        if not is_kept(storage):
            waiting |= reads(maker[storage])
    saved = {storage for storage in needed if is_kept(storage)}

    # The forward pass: its own ops, and those of either pass that saved storages come from.
    wanted = {op.name: op for op in works if op.phase == "forward" or saved & set(op.outputs)}
    asked = list(wanted.values())
    for op in asked:
        sources = [maker[s] for s in reads(op) if s in maker and maker[s].name not in wanted]
        wanted |= {source.name: source for source in sources}
        asked += sources
    forward = sorted(wanted.values(), key=lambda op: position[op.name])

    # The backward pass: before each op, whatever it still misses.
    backward: list[Op] = []
    done: set[str] = set()
    turns: list[tuple[list[Op], set[int]]] = [([op], reads(op)) for op in backward_ops]
    for ops, read in [*turns, ([], gradients)]:
        missing: list[Op] = []
        missed = list(read)
        for storage in missed:
            if is_of_forward(storage) and storage not in saved and maker[storage].name not in done:
                done.add(maker[storage].name)
                missing.append(maker[storage])
                missed += reads(maker[storage])
        backward += sorted(missing, key=lambda each: position[each.name])
        backward += ops
    return _moments(step, storages, forward, backward, saved, gradients)


def _moments(
    step: TrainingStep,
    storages: Sequence[int],
    forward: Sequence[Op],
    backward: Sequence[Op],
    saved: set[int],
    gradients: set[int],
) -> list[Moment]:
    """The runs with what is in memory during each."""
    of_step = {storages[number] for number in step.outputs}
    given = {number for number, value in enumerate(step.values) if value.role and value.view_of < 0}
    tangents = {number for number in given if step.values[number].role == "tangent"}

    def touched(op: Op) -> set[int]:
        return {storages[number] for number in (*op.inputs, *op.outputs)}

    def last_uses(runs: Sequence[Op]) -> dict[int, int]:
        uses: dict[int, int] = {}
        for at, op in enumerate(runs):
            uses |= dict.fromkeys(touched(op), at)
        return uses

    size = [value.size_bytes for value in step.values]

    def moment(op: Op, turn: str, here: set[int], copies: set[int]) -> Moment:
        total = sum(size[storage] for storage in here) + sum(size[storage] for storage in copies)
        return Moment(op.name, turn, frozenset(here), frozenset(copies), total + op.scratch_bytes)

    found: list[Moment] = []
    last = last_uses(forward)
    here = given - tangents
    for at, op in enumerate(forward):
        here |= set(op.outputs)
        found.append(moment(op, "forward", here, set()))
        over = {s for s in touched(op) if last[s] == at}
        here -= over - saved - of_step - given
    # In the backward pass, copies of what the forward pass returned lie beside the originals.
    last = last_uses([_without(op, saved) for op in backward])
    returned = {s for s in of_step if s not in given}
    here |= {s for s in tangents if s in last or s in gradients}
    copies: set[int] = set()
    for at, op in enumerate(backward):
        for storage in op.outputs:
            (copies if storage in here else here).add(storage)
        found.append(moment(op, "backward", here, copies))
        # What was saved, and read for the last time before it is made again, is over at once.
        over = {s for s in touched(op) if last.get(s, -1) <= at} - gradients
        copies -= over | saved
        here -= over - returned - (given - tangents)
    return found


def _without(op: Op, saved: set[int]) -> Op:
    """The op as if it did not make what is saved."""
    outputs = tuple(number for number in op.outputs if number not in saved)
    return Op(op.name, op.kind, op.phase, op.inputs, outputs, op.seconds)
