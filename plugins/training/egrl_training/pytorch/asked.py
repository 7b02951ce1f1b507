"""What a caller of `memory_limit` asks for, checked, and the search for a plan that keeps to it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes

from egrl.api import search
from egrl.measure.board import excerpt
from egrl.methods import find_method
from egrl.runs.past_run import Result
from egrl_training.pytorch import plan as plans
from egrl_training.pytorch.compiled import Memory
from egrl_training.pytorch.fitting import Compiled, fastest_within
from egrl_training.pytorch.plan import Plan
from egrl_training.simulator.device import LEAST_COPY_S, Device
from egrl_training.simulator.problem import TrainingConfig, TrainingProblem
from egrl_training.steps.step import Op, TrainingStep
from hwsim.problem import Mapping16
from workloads.errors import InputError
from workloads.text import read_quantity, size_text

NEAR_ENOUGH = 1e-3
"""A plan within this share of the bound is not improved further: times of ops are known less well."""
MOST_BPS = 1e18
"""No copy is as fast."""
MOST_BYTES = 2**62
LEAST_FRACTION = 1e-6
SCALAR_BYTES = 64
"""Left free of every limit that is simulated, for scalars that no graph has: the gradient of a loss, which the caller
of `backward` holds during the whole pass, and numbers that ops wrap."""


MOST_RUNS = 10_000
"""Of one graph."""


@dataclass(frozen=True)
class Limit:
    """What a plan must keep to, and how it is searched for.

    Attributes:
        bytes: memory that the step may take; None if `fraction` says it.
        fraction: of the peak of keeping every value; None if `bytes` says it.
        reserved: bytes that the step cannot have: the optimizer's state, other models, the driver.
        method: what searches for the plan, of `egrl list methods`.
        seconds: of the search.
        seed: of the search.
        host_Bps: bytes per second of copies to the host and back; both 0: nothing is kept there; None: as measured.
        least_copy_s: what is copied in less time stays on the device.
        runs: of a graph that are open at once.
        held_bytes: what a run may hold between its passes; None: anything.
    """

    bytes: int | None
    fraction: float | None
    reserved: int
    method: str
    seconds: float
    seed: int
    host_Bps: tuple[float, float] | None = (0.0, 0.0)
    least_copy_s: float = LEAST_COPY_S
    runs: int = 1
    held_bytes: int | None = None

    def plan(self, step: TrainingStep, margin: float = 0.0) -> tuple[Plan, int]:
        """The best plan that is found for a step, and the bytes that it holds after the forward pass.

        `margin` is the share of the limit that is left free. InputError if no plan within the limit is found.
        """
        made, problem, mapping = self._found(step, self._device(1 - margin), margin)
        away = {value.name for value in made.offload}
        saved = [number for number in problem.saved(mapping) if step.values[number].name not in away]
        stays = {*saved, *(int(step.owner[number]) for number in step.outputs)}
        stays |= {number for number, value in enumerate(step.values) if value.role in ("parameter", "input")}
        return made, sum(step.values[number].size_bytes for number in stays)

    def plan_compiled(
        self, step: TrainingStep, memory: Callable[[Sequence[str]], Memory]
    ) -> tuple[Plan, int]:
        """The same within the limit as it is compiled: `memory` of what is kept, by names, without what is reserved.

        InputError if no plan within the limit is found.
        """
        everything = [step.values[number].name for number in step.candidates]
        whole = memory(everything)
        all_bytes = whole.peak_bytes + self.reserved
        limit = self.bytes if self.fraction is None else max(1, int(self.fraction * all_bytes))
        assert limit is not None
        all_made, _, _ = replace(self, held_bytes=None)._found(step, Device("all", memory_fraction=1.0))

        def compiled(plan: Plan) -> Compiled:
            taken = whole if list(plan.keep) == list(all_made.keep) else memory(plan.keep)
            peak = taken.peak_bytes + self.reserved
            # the bound was proved within a simulated limit, and says nothing of this one
            plan = replace(
                plan, limit_bytes=limit, peak_bytes=peak, all_peak_bytes=all_bytes, bound_seconds=0.0
            )
            return Compiled(plan, peak, taken.held_bytes)

        def search(limit_bytes: int) -> Plan:
            return self._found(step, Device("limit", memory_bytes=limit_bytes))[0]

        if all_bytes <= limit and (self.held_bytes is None or whole.held_bytes <= self.held_bytes):
            found = compiled(all_made)
        else:
            found = fastest_within(limit, int(limit * all_made.peak_bytes / all_bytes), search, compiled)
        return found.plan, found.held_bytes

    def _found(
        self, step: TrainingStep, device: Device, margin: float = 0.0
    ) -> tuple[Plan, TrainingProblem, Mapping16]:
        """The best plan within the memory of a device, with its problem and mapping."""
        taken = self.reserved + SCALAR_BYTES
        config = TrainingConfig(reserved_bytes=taken, gap=NEAR_ENOUGH)
        problem = searched = TrainingProblem(step, device, config)
        if self.held_bytes is not None:
            tangents = sum(value.size_bytes for value in step.values if value.role == "tangent")
            room = problem.limit_bytes - taken - self.held_bytes - tangents
            searched = TrainingProblem(_holding(step, max(room, 0)), device, config)
        mapping, bound = np.ones((len(problem.space.nodes), 1), np.int16), 0.0
        if searched.keep_all[1] > problem.limit_bytes:
            result = self._search(searched)
            mapping = searched.baseline.mapping if result.mapping is None else result.mapping
            bound = result.bound or 0.0
        return plans.plan_of(problem, mapping, bound, margin), problem, mapping

    def _search(self, problem: TrainingProblem) -> Result:
        exact, threads = self.method == "exact", torch.get_num_threads()
        try:
            # compilation runs under modes in which tensors have no data
            with _disable_current_modes():
                return self._searched(problem, exact)
        finally:
            torch.set_num_threads(threads)  # PyTorch refuses to go on compiling with another number

    def _searched(self, problem: TrainingProblem, exact: bool) -> Result:
        return search(
            problem,
            method=self.method,
            seed=self.seed,
            settings=[f"method.seconds={self.seconds}"] if exact else [],
            seconds=None if exact else self.seconds,
        )

    def _device(self, share: float) -> Device:
        """What has this share of the limit."""
        to, back = self.host_Bps or (0.0, 0.0)
        if self.fraction is not None:
            return Device("limit", 0, self.fraction * share, to, back, self.least_copy_s)
        assert self.bytes is not None
        return Device("limit", max(1, int(self.bytes * share)), 0.0, to, back, self.least_copy_s)


def _holding(step: TrainingStep, scratch_bytes: int) -> TrainingStep:
    """A step that needs so much room between its passes, which leaves less of its limit for what it holds then."""
    at = next((n for n, op in enumerate(step.ops) if op.phase == "backward"), len(step.ops))
    between = Op("between the passes", "room", "backward", (), (), 0.0, scratch_bytes, recomputable=False)
    return replace(step, ops=(*step.ops[:at], between, *step.ops[at:]))


def simulated_peak(step: TrainingStep, keep: Collection[str]) -> int:
    """Bytes at the peak of a step that was not measured and keeps these values: the scratch of its ops is missing."""
    timed = replace(step, ops=tuple(replace(op, seconds=1.0) for op in step.ops))
    problem = TrainingProblem(timed, Device("all", memory_fraction=1.0))
    kept = np.array([[name in keep] for name in problem.space.nodes], np.int16)
    return int(problem.peak_bytes(kept[None])[0])


def size_of(limit: str | int, name: str = "limit") -> int:
    """Bytes of "6 GiB", "512MB" or a number of bytes. InputError if it is none above 0."""
    if isinstance(limit, int) and not isinstance(limit, bool) and 0 < limit < MOST_BYTES:
        return limit
    # A text without a unit is more likely a slip than a number of bytes; neither is a bandwidth ("/s") one.
    named = isinstance(limit, str) and limit.strip().upper().endswith("B")
    size = (read_quantity(str(limit)) or 0) if named else 0
    if not 1 <= size < MOST_BYTES:
        raise InputError(f'{name}: expected bytes such as "6 GiB" or 6442450944, found {excerpt(limit)}')
    return int(size)


def may_be_written(save: Any) -> bool:
    """Whether it names a file in a folder that exists."""
    if not isinstance(save, str | Path) or "\0" in str(save):
        return False
    return not Path(save).is_dir() and Path(save).parent.is_dir()


def asked(
    limit: str | int | None,
    fraction: float | None,
    reserved: str | int,
    plan: str | Path | None,
    method: str,
    seconds: float,
    seed: int,
    offload: bool | str,
    runs: int = 1,
) -> Limit:
    """What the arguments of `memory_limit` ask for. InputError if one is wrong, or they exclude each other."""
    if sum(given is not None for given in (limit, fraction, plan)) != 1:
        raise InputError("memory_limit: expected one of limit, fraction and plan, found none or several")
    real = isinstance(fraction, int | float) and not isinstance(fraction, bool)
    if fraction is not None and not (real and LEAST_FRACTION <= fraction <= 1):
        raise InputError(
            f"fraction: expected a number from {LEAST_FRACTION:g} to 1, found {excerpt(fraction)}"
        )
    if not (isinstance(seconds, int | float) and 0 < seconds < math.inf):
        raise InputError(f"seconds: expected a number above 0, found {seconds!r}")
    if not isinstance(method, str):
        raise InputError(f"method: expected a name, found {excerpt(method)}")
    if not isinstance(runs, int) or isinstance(runs, bool) or not 1 <= runs <= MOST_RUNS:
        raise InputError(f"runs: expected a whole number from 1 to {MOST_RUNS}, found {excerpt(runs)}")
    find_method(method)
    room = None if limit is None else size_of(limit)
    taken = size_of(reserved, "reserved") if reserved else 0
    if room is not None and taken >= room:
        raise InputError(
            f"reserved: expected less than the limit of {size_text(room)}, found {size_text(taken)}"
        )
    return Limit(room, fraction, taken, method, seconds, seed, _rates(offload), runs=runs)


def _rates(offload: bool | str) -> tuple[float, float] | None:
    """`Limit.host_Bps` of the argument `offload`. InputError if it is no rate."""
    if isinstance(offload, bool):
        return None if offload else (0.0, 0.0)
    named = isinstance(offload, str) and offload.strip().upper().endswith("B/S")
    rate = float(read_quantity(offload) or 0.0) if named else 0.0
    if not 1 <= rate <= MOST_BPS:
        raise InputError(
            f'offload: expected True, False or bytes per second such as "25 GB/s", found {offload!r}'
        )
    return rate, rate
