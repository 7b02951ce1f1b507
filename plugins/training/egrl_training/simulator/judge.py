"""Does a plan keep a training step within its limit? Slow and obvious; it shares no code with the simulator.

It plays the step: a set of what is in memory, changed op by op. The rules are those in `simulator/problem.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from egrl_training.steps.step import Op, TrainingStep
from hwsim.problem import Violation

NAMES = 3
"""Storages that a violation names, the largest first."""


@dataclass(frozen=True)
class Host:
    """Another memory, and how long ops take, which says when copies to it are done.

    Attributes:
        to_Bps, from_Bps: bytes per second of a copy to the host, and back.
        least_copy_s: what is copied in less time stays on the device.
        seconds, again: factors by kind of op, on its seconds, and further on those of a second run.
    """

    to_Bps: float
    from_Bps: float
    least_copy_s: float
    seconds: Mapping[str, float]
    again: Mapping[str, float]


@dataclass(frozen=True)
class Moment:
    """One run of an op: its name, "forward" or "backward", and what is in memory meanwhile.

    Attributes:
        here: positions of the values whose storages are in memory.
        copies: those of which there is a second one, since they were saved and are made again.
        total_bytes: of both, and of scratch.
        end_s: when it ends, from the start of the step; 0 without a host.
    """

    op: str
    turn: str
    here: frozenset[int]
    copies: frozenset[int]
    total_bytes: int
    end_s: float


def judge(
    step: TrainingStep, limit_bytes: int, reserved_bytes: int, plan: Sequence[int], host: Host | None = None
) -> list[Violation]:
    """Everything that a plan breaks, one number per candidate of the step; empty: all is well.

    0: recompute, 1: keep, 2: keep on the host. Of each stretch of runs above the limit the worst is named.

    Raises:
        ValueError: another number of decisions.
    """
    candidates = list(step.candidates)
    if len(plan) != len(candidates):
        raise ValueError(f"plan: expected {len(candidates)} decisions, received {len(plan)}")
    wrong = [
        Violation("no such choice", step.values[value].name, float(choice), 1.0, "")
        for value, choice in zip(candidates, plan, strict=True)
        if choice not in (0, 1, 2) or (choice == 2 and not _may_leave(step, value, host))
    ]
    if wrong:
        return wrong
    kept = {value for value, choice in zip(candidates, plan, strict=True) if choice}
    away = {value for value, choice in zip(candidates, plan, strict=True) if choice == 2}
    found: list[Violation] = []
    worst: tuple[int, Moment] | None = None
    for moment in play(step, kept, away, host):
        total = moment.total_bytes + reserved_bytes
        if total > limit_bytes:
            worst = (total, moment) if worst is None or total > worst[0] else worst
        elif worst is not None:
            found.append(_too_much(step, *worst, limit_bytes))
            worst = None
    return found if worst is None else [*found, _too_much(step, *worst, limit_bytes)]


def _may_leave(step: TrainingStep, storage: int, host: Host | None) -> bool:
    """Whether a storage is no result of the step, and large enough to be copied."""
    if host is None or any(storage in (n, step.values[n].view_of) for n in (*step.outputs, *step.gradients)):
        return False
    size = step.values[storage].size_bytes
    return min(size / host.to_Bps, size / host.from_Bps) >= host.least_copy_s


def _too_much(step: TrainingStep, total: int, moment: Moment, limit_bytes: int) -> Violation:
    largest = sorted(moment.here, key=lambda storage: -step.values[storage].size_bytes)[:NAMES]
    names = ", ".join(f"{step.values[storage].name} {step.values[storage].size_bytes}" for storage in largest)
    where = f"{moment.op} in the {moment.turn} pass (largest: {names})"
    return Violation("memory", where, float(total), float(limit_bytes), "bytes")


def play(
    step: TrainingStep, kept: set[int], away: Collection[int] = (), host: Host | None = None
) -> list[Moment]:
    """Every run of the step, in order, if the values `kept` are kept where they are needed, those `away` on a host."""
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
    copies = _Copies()
    if host is not None:
        copies = _copies(step, storages, forward, backward, saved & set(away), host)
    return _moments(step, storages, forward, backward, saved, gradients, copies)


@dataclass(frozen=True)
class _Copies:
    """When copies are made.

    Attributes:
        out: for each storage on the host the run of the forward pass before which it is gone; their number: the end.
        back: for each the run of the backward pass before which it has room again.
        ends_s: when each run of both passes ends; empty: that is not known.
    """

    out: Mapping[int, int] = field(default_factory=dict)
    back: Mapping[int, int] = field(default_factory=dict)
    ends_s: Sequence[float] = ()


def _copies(
    step: TrainingStep,
    storages: Sequence[int],
    forward: Sequence[Op],
    backward: Sequence[Op],
    away: set[int],
    host: Host,
) -> _Copies:
    """When the storages `away` are copied to the host and back."""
    early, late = _seconds(host, forward, []), _seconds(host, backward, forward)
    size = {storage: step.values[storage].size_bytes for storage in away}

    def touches(op: Op, storage: int) -> bool:
        return any(storages[number] == storage for number in (*op.inputs, *op.outputs))

    def reads(op: Op, storage: int) -> bool:
        return any(storages[number] == storage for number in op.inputs)

    # One after another to the host, from the last use of each on.
    ends = list(accumulate(early))
    last = {s: max(at for at, op in enumerate(forward) if touches(op, s)) for s in away}
    out: dict[int, int] = {}
    done = 0.0
    for storage in sorted(away, key=lambda s: (last[s], s)):
        done = max(done, ends[last[storage]]) + size[storage] / host.to_Bps
        later = [at for at in range(last[storage] + 1, len(forward)) if ends[at - 1] >= done]
        out[storage] = min(later, default=len(forward))
    turn_s = max([done, *ends[-1:]])

    # One after another back; asked for as late as possible if nothing ever waits.
    begins = [0.0, *accumulate(late)]
    first = {s: min(at for at, op in enumerate(backward) if reads(op, s)) for s in away}
    order = sorted(away, key=lambda s: (first[s], s))
    back: dict[int, int] = {}
    planned = begins[-1]
    for storage in reversed(order):
        planned = min(begins[first[storage]], planned) - size[storage] / host.from_Bps
        back[storage] = max([at for at in range(first[storage] + 1) if begins[at] <= planned], default=0)

    # What really happens: the queue may be busy, and then whoever reads waits.
    now, done, there = turn_s, turn_s, dict.fromkeys(away, 0.0)
    ends_s = list(ends)
    for at, seconds in enumerate(late):
        for storage in order:
            if back[storage] == at:
                done = max(done, now) + size[storage] / host.from_Bps
                there[storage] = done
        now = max([now, *(there[storage] for storage in order if first[storage] == at)]) + seconds
        ends_s.append(now)
    return _Copies(out, back, ends_s)


def _seconds(host: Host, runs: Sequence[Op], before: Sequence[Op]) -> list[float]:
    """What each run takes; ops that ran `before` run again."""
    known = {op.name for op in before}
    return [
        op.seconds
        * host.seconds.get(op.kind, 1.0)
        * (host.again.get(op.kind, 1.0) if op.name in known else 1.0)
        for op in runs
    ]


def _moments(
    step: TrainingStep,
    storages: Sequence[int],
    forward: Sequence[Op],
    backward: Sequence[Op],
    saved: set[int],
    gradients: set[int],
    copied: _Copies,
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

    found: list[Moment] = []

    def moment(op: Op, turn: str, here: set[int], copies: set[int]) -> Moment:
        total = sum(size[storage] for storage in here) + sum(size[storage] for storage in copies)
        end_s = copied.ends_s[len(found)] if copied.ends_s else 0.0
        return Moment(op.name, turn, frozenset(here), frozenset(copies), total + op.scratch_bytes, end_s)

    last = last_uses(forward)
    here = given - tangents
    for at, op in enumerate(forward):
        here -= {storage for storage, run in copied.out.items() if run == at}
        here |= set(op.outputs)
        found.append(moment(op, "forward", here, set()))
        over = {s for s in touched(op) if last[s] == at}
        here -= over - saved - of_step - given
    # In the backward pass, copies of what the forward pass returned lie beside the originals.
    last = last_uses([_without(op, saved) for op in backward])
    returned = {s for s in of_step if s not in given}
    here |= {s for s in tangents if s in last or s in gradients}
    copies: set[int] = set()
    here -= set(copied.out)
    for at, op in enumerate(backward):
        here |= {storage for storage, run in copied.back.items() if run == at}
        for storage in op.outputs:
            (copies if storage in here or storage in copied.back else here).add(storage)
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
