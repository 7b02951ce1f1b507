"""The family of models around a training step: seconds of each kind of op may be off, and so may those of second runs.

The second matters most. A compiler that fuses what is computed again into what reads it makes that nearly free, one
that does not makes it cost what it did the first time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from egrl_training.simulator.device import Device, device_file, parse_device
from egrl_training.simulator.family.limits import PeakLimits
from egrl_training.simulator.search import annealed
from egrl_training.simulator.simulate import KEEP, OFFLOAD, RECOMPUTE, canonical, runs_of, simulate
from egrl_training.simulator.tables import Ints, Tables
from egrl_training.steps.step import TrainingStep
from hwsim.family import Effects, Estimate, Family, Model, Parameter
from hwsim.jit import kernel
from hwsim.problem import Floats, Mapping16

SPREADS = {"seconds": 0.2, "seconds of": 0.2, "again": 0.4, "again of": 0.6}
"""Prior standard deviations of the logarithms; assumptions. A kind that is fused may take nearly nothing."""
LEAST_SHARE = 0.005
"""Kinds with less than this share of a step's seconds are one kind, the last."""
OTHER = "other"
NUDGE = 1e-4
"""Half of the step, in prior standard deviations, over which the slope of waits is measured."""


@kernel
def _by_kind(t: Tables, plans: NDArray[np.int16], kind: Ints, kinds: int) -> Floats:
    """float64 [B, 2, kinds]: seconds of first runs and of later runs, by kind of op, under plans int16 [B, N]."""
    found = np.zeros((len(plans), 2, kinds))
    for b in range(len(plans)):
        runs = runs_of(t, plans[b])
        ran = np.zeros(len(kind), np.bool_)
        for r in range(runs.length):
            k = runs.op[r]
            if ran[k]:
                found[b, 1, kind[k]] += t.again_s[k]
            else:
                found[b, 0, kind[k]] += t.seconds[k]
            ran[k] = True
    return found


@kernel
def _waited(t: Tables, plans: NDArray[np.int16]) -> Floats:
    """float64 [B]: seconds that a step waits for copies, under plans int16 [B, N]."""
    found = np.zeros(len(plans))
    for b in range(len(plans)):
        found[b] = runs_of(t, plans[b]).wait_s.sum()
    return found


@kernel
def _made_again(t: Tables, plans: NDArray[np.int16]) -> NDArray[np.bool_]:
    """bool [B, N]: True for values that are not saved and whose maker runs again."""
    found = np.zeros(plans.shape, np.bool_)
    for b in range(len(plans)):
        runs = runs_of(t, plans[b])
        again = np.zeros(len(t.phase), np.bool_)
        for r in range(runs.turn, runs.length):
            again[runs.op[r]] = True
        for s in range(len(t.decision)):
            if t.decision[s] >= 0:
                found[b, t.decision[s]] = again[t.maker[s]] and not runs.saved[s]
    return found


class TrainingFamily(Family):
    """See `hwsim.family.Family`; a place is a value that is computed again, F = N of them."""

    def __init__(self, step: TrainingStep, tables: Tables, limit_bytes: int) -> None:
        self._step, self._tables = step, tables
        names = [step.ops[op].kind or OTHER for op in tables.op]
        total: dict[str, float] = {}
        for name, seconds in zip(names, tables.seconds, strict=True):
            total[name] = total.get(name, 0.0) + float(seconds)
        large = [name for name in sorted(total) if total[name] >= LEAST_SHARE * sum(total.values())]
        self.kinds = (*(name for name in large if name != OTHER), OTHER)
        number = {name: at for at, name in enumerate(self.kinds)}
        self._kind = np.array([number.get(name, len(self.kinds) - 1) for name in names], np.int64)
        self._parameters = (
            Parameter("seconds", SPREADS["seconds"], shared=True),
            *(Parameter(f"seconds of {kind} ops", SPREADS["seconds of"], shared=True) for kind in self.kinds),
            Parameter("again", SPREADS["again"], shared=True),
            *(Parameter(f"again of {kind} ops", SPREADS["again of"], shared=True) for kind in self.kinds),
        )
        decided = np.flatnonzero(tables.decision >= 0)
        self._share: Floats = tables.again_s[tables.maker[decided]] / tables.seconds.sum()
        size = tables.size_bytes[decided] / tables.size_bytes[decided].sum()
        self._weight: Floats = (self._share / max(self._share.sum(), 1e-300) + size) / 2
        self._limits = PeakLimits.prior(tables, limit_bytes)

    @property
    def parameters(self) -> Sequence[Parameter]:
        """Factors on seconds: of all ops, of kinds; then further ones on second runs: of all ops, of kinds."""
        return self._parameters

    @property
    def effects(self) -> Sequence[str]:
        """None."""
        return ()

    @property
    def nominal(self) -> Effects:
        """None."""
        return frozenset()

    def _factors(self, theta: Floats) -> tuple[Floats, Floats]:
        """float64 [kinds] each: the factors on the seconds of a first and of a later run."""
        logs = theta * [parameter.spread for parameter in self._parameters]
        first, again = logs[: 1 + len(self.kinds)], logs[1 + len(self.kinds) :]
        once = first[0] + first[1:]
        return np.exp(once), np.exp(once + again[0] + again[1:])

    def _parts(self, theta: Floats, mapping: Mapping16) -> Floats:
        """float64 [B, 2, kinds]: modelled seconds of first and later runs by kind."""
        plans = np.ascontiguousarray(mapping[:, :, 0])
        found: Floats = _by_kind(self._tables, plans, self._kind, len(self.kinds))
        return found * np.stack(self._factors(theta))

    def predict(self, model: Model, mapping: Mapping16) -> Floats:
        """Seconds float64 [B] of valid mappings int16 [B, N, 1]."""
        seconds: Floats = self._parts(model.theta, mapping).sum(axis=(1, 2)) + self._waits(
            model.theta, mapping
        )
        if model.residual is None:
            return seconds
        return seconds * np.exp(self.places(mapping) @ model.residual)

    def gradient(self, model: Model, mapping: Mapping16) -> tuple[Floats, Floats]:
        """Seconds float64 [B] without the residual, and d log seconds / d theta, float64 [B, P]."""
        parts = self._parts(model.theta, mapping)
        waits = self._waits(model.theta, mapping)
        seconds = parts.sum(axis=(1, 2)) + waits
        own, again = parts.sum(axis=1), parts[:, 1]
        slope = np.concatenate(
            [own.sum(axis=1, keepdims=True), own, again.sum(axis=1, keepdims=True), again], axis=1
        )
        slope = slope * [parameter.spread for parameter in self._parameters]
        if waits.any():
            # How much later copies are needed has no slope that can be written down.
            for p in range(len(self._parameters)):
                up = np.eye(len(self._parameters))[p] * NUDGE
                slope[:, p] += (
                    self._waits(model.theta + up, mapping) - self._waits(model.theta - up, mapping)
                ) / (2 * NUDGE)
        return seconds, slope / seconds[:, None]

    def _waits(self, theta: Floats, mapping: Mapping16) -> Floats:
        """float64 [B]: modelled seconds of waiting for the host."""
        plans = np.ascontiguousarray(mapping[:, :, 0])
        if not (plans == OFFLOAD).any():
            return np.zeros(len(plans))
        once, again = self._factors(theta)
        t = self._tables
        return _waited(
            t._replace(seconds=t.seconds * once[self._kind], again_s=t.again_s * again[self._kind]), plans
        )

    def places(self, mapping: Mapping16) -> Floats:
        """float64 [B, N]: the seconds of making a value again, as a share of a step in which each op runs once."""
        again = _made_again(self._tables, np.ascontiguousarray(mapping[:, :, 0]))
        return np.asarray(again * self._share)

    def distance(self, one: Mapping16, other: Mapping16) -> Floats:
        """float64 [A, B]: the share of the values with another choice, by their seconds and their bytes."""
        same = np.zeros((len(one), len(other)))
        for choice in (KEEP, RECOMPUTE, OFFLOAD):
            a, b = (1.0 * (each[:, :, 0] == choice) for each in (one, other))
            same += (a * self._weight) @ b.T
        return np.asarray(np.clip(1.0 - same, 0.0, 1.0))

    def improve(self, model: Model, start: Mapping16, *, steps: int, hot: float, key: int) -> Mapping16:
        """See `hwsim.family.Family.improve`."""
        once, again = self._factors(model.theta)
        again_s = self._tables.again_s * again[self._kind]
        if model.residual is not None:
            decided = np.flatnonzero(self._tables.decision >= 0)
            more = np.zeros(len(again_s))
            np.add.at(more, self._tables.maker[decided], model.residual * self._share)
            again_s = np.maximum(again_s + more * self._tables.seconds.sum(), 0.0)
        known = self._tables._replace(seconds=self._tables.seconds * once[self._kind], again_s=again_s)
        limit = self._limits.mode() if model.limit is None else model.limit
        room = min(self._limits.room_bytes(limit), self._limits.limit_bytes)
        plan = np.ascontiguousarray(start[:, 0])
        found = annealed(known, plan, room, key & (2**63 - 1), steps, hot)
        both = np.stack([plan, found])
        seconds, peak = simulate(known, both)
        worse = peak[1] > self._limits.limit_bytes or (peak[0] <= room and seconds[1] > seconds[0])
        return start if worse else canonical(self._tables, both[1:])[0][:, None]

    def limits(self, ran: Mapping16, failed: Mapping16) -> PeakLimits:
        """What is known of the memory that plans need; see `hwsim.family.Family.limits`."""
        return self._limits.given(ran, failed)

    def described(self, device: Device, estimates: Mapping[str, Estimate], name: str) -> tuple[Device, str]:
        """The device with the factors that estimates amount to, and its file. InputError if the name is none."""
        kinds = sorted({self._step.ops[op].kind for op in self._tables.op})
        unknown = Estimate(1.0, 1.0, 1.0)

        def factor(what: str, kind: str, before: float) -> float:
            group = kind if kind in self.kinds else OTHER
            of_all, of_kind = estimates.get(what, unknown), estimates.get(f"{what} of {group} ops", unknown)
            return float(f"{before * of_all.factor * of_kind.factor:.5g}")

        seconds = {kind: factor("seconds", kind, device.seconds.get(kind, 1.0)) for kind in kinds}
        again = {kind: factor("again", kind, device.again.get(kind, 1.0)) for kind in kinds}
        text = f"# {device.name}, fitted to measurements: `seconds` and `again` are.\n" + device_file(
            replace(
                device, name=name, prediction={}, seconds=device.seconds | seconds, again=device.again | again
            )
        )
        return parse_device(text, f"{name}.toml"), text
