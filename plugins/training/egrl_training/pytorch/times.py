"""Seconds and scratch bytes of each op of a joint graph, measured on the machine at hand.

Each different op (target, shapes, strides, other arguments) runs by itself on tensors like its own. The shortest of
several runs is kept, since whatever else the machine does only adds to it, and the room that the op takes beside what
it returns. Repeated layers are measured once. The generators of random numbers are left as they were. Custom ops that
are not tagged do not run: nobody knows what else they change.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import math
import operator
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

from egrl_training.pytorch import host, kept_times
from egrl_training.pytorch.counted import tensors_of
from egrl_training.pytorch.joint import JointGraph
from egrl_training.pytorch.peak import given_bytes, peak_of
from egrl_training.pytorch.same import is_known
from egrl_training.pytorch.timing import Timing

log = logging.getLogger(__name__)
ROUNDS = 2
ENOUGH_S = 0.03
"""Seconds of runs after which an op is measured well enough, per round."""
MOST_RUNS = 30
FEWEST_RUNS = 2
SHORT_S = 1e-3
"""Shorter ops of a GPU run several times in a row, which are timed together."""
MOST_IN_A_ROW = 20


@dataclass
class Times:
    """Timings of ops by what decides them; shared by all graphs of a process, and by processes if `on_disk`."""

    known: dict[str, Timing]
    on_disk: bool = False

    def measure(
        self, joint: JointGraph, say: Callable[[int, int], None] = lambda done, of: None
    ) -> JointGraph:
        """The joint graph with measured ops; `say` gets how many ops are done, of how many."""
        ops, values, estimated = [], list(joint.step.values), set()
        devices = _cuda_of(joint.ops)
        # compilation runs under modes in which tensors have no data
        with _disable_current_modes(), torch.random.fork_rng(devices=devices), torch.no_grad():
            self._time(joint, say)
            for op, node in zip(joint.step.ops, joint.ops, strict=True):
                timing = self.known.get(_key(node), Timing(0.0, 0))
                returned = 0
                for output in op.outputs if timing.held_bytes else ():
                    held = max(timing.held_bytes[_position(joint.values[output])], values[output].size_bytes)
                    held = given_bytes(held, device_of(node))
                    values[output] = replace(values[output], size_bytes=held)
                    returned += held
                scratch = max(0, timing.peak_bytes - returned)
                ops.append(replace(op, seconds=timing.seconds, scratch_bytes=scratch))
                if timing.estimated:
                    estimated.add(op.kind)
        if estimated:
            log.warning(
                "egrl: ops that do not run by themselves have estimated times and no scratch: %s",
                ", ".join(sorted(estimated)),
            )
        return replace(joint, step=replace(joint.step, values=tuple(values), ops=tuple(ops)))

    def peak_bytes(self, node: fx.Node) -> int:
        """What an op takes at most while it runs, beside its inputs; it runs now if it is not known."""
        key = _key(node)
        if key not in self.known:
            with _disable_current_modes(), torch.random.fork_rng(devices=_cuda_of([node])), torch.no_grad():
                self.known[key] = _measured(node)
        return self.known[key].peak_bytes

    def _time(self, joint: JointGraph, say: Callable[[int, int], None]) -> None:
        """Measure what is not known yet, in rounds, so that a busy moment of the machine does not count."""
        if not self._unknown(joint):
            return
        with kept_times.alone() if self.on_disk else contextlib.nullcontext():
            self._time_alone(joint, say)

    def _unknown(self, joint: JointGraph) -> dict[str, fx.Node]:
        """What is not known yet, also not from the disk."""
        if self.on_disk:
            self.known = kept_times.read() | self.known
        new: dict[str, fx.Node] = {}
        for op, node in zip(joint.step.ops, joint.ops, strict=True):
            key = _key(node)
            if key not in self.known and any(joint.step.values[output].size_bytes for output in op.outputs):
                new.setdefault(key, node)
        return new

    def _time_alone(self, joint: JointGraph, say: Callable[[int, int], None]) -> None:
        """The same, while no other process measures; it may have done so until now."""
        new = self._unknown(joint)
        for turn in range(ROUNDS):
            for number, (key, node) in enumerate(new.items()):
                say(turn * len(new) + number, ROUNDS * len(new))
                timing = _measured(node)
                before = self.known.get(key, timing)
                self.known[key] = replace(timing, seconds=min(before.seconds, timing.seconds))
        if self.on_disk and new:
            kept_times.write({key: self.known[key] for key in new})


def main_device(nodes: Iterable[fx.Node]) -> torch.device:
    """The first GPU that ops run on; the CPU if there is none."""
    return next((device for device in map(device_of, nodes) if device.type == "cuda"), torch.device("cpu"))


def _cuda_of(nodes: Iterable[fx.Node]) -> list[torch.device]:
    """The GPUs that ops run on."""
    return [device for device in {device_of(node) for node in nodes} if device.type == "cuda"]


def _position(node: fx.Node) -> int:
    """Which result of its op a value is."""
    return node.args[1] if node.target is operator.getitem and isinstance(node.args[1], int) else 0


def _key(node: fx.Node) -> str:
    def described(thing: Any) -> Any:
        if not isinstance(thing, fx.Node):
            return thing
        if (branch := _branch(thing)) is not None:
            return branch.code
        value = thing.meta.get("val")
        if not isinstance(value, torch.Tensor):
            return type(value).__name__
        device = value.device.type
        if device == "cuda":  # equal ones need not measure again
            device = torch.cuda.get_device_name(value.device)
        return f"{value.dtype}{tuple(value.shape)}{value.stride()}{device}"

    return str((str(node.target), fx.map_arg((node.args, node.kwargs), described)))


def _measured(node: fx.Node) -> Timing:
    device = device_of(node)
    if all(map(_may_run, _ops_of(node))):
        with contextlib.suppress(Exception):  # whatever an op raises on made-up data
            return _timed([_call(node) for _ in range(_copies(node, device))], device)
    return Timing(moved_bytes(node) / rate_Bps(device), 0, estimated=True)


def _may_run(op: torch._ops.OpOverload) -> bool:
    """False for custom ops that may change what is not theirs, such as a counter or a generator of random numbers."""
    return is_known(op) or DRAWS in op.tags


def _ops_of(node: fx.Node) -> Iterator[torch._ops.OpOverload]:
    """The ops that a node runs: itself, or those of an op of higher order."""
    for leaf in tree_leaves((node.target, node.args, node.kwargs)):
        if isinstance(leaf, torch._ops.OpOverload):
            yield leaf
        elif isinstance(leaf, fx.Node) and (branch := _branch(leaf)) is not None:
            for within in branch.graph.nodes:
                yield from _ops_of(within)


def _copies(node: fx.Node, device: torch.device) -> int:
    """How many inputs take turns, so that a GPU does not find them in its cache, as it seldom does within a step."""
    if device.type != "cuda":
        return 1
    cache = torch.cuda.get_device_properties(device).L2_cache_size
    return min(MOST_IN_A_ROW, math.ceil(2 * cache / max(1, moved_bytes(node))))


def _call(node: fx.Node) -> Callable[[], Any]:
    """The op of a node on tensors like its own."""
    args, kwargs = fx.map_arg((node.args, node.kwargs), _stand_in)
    target: Any = node.target
    return lambda: target(*args, **kwargs)


def _stand_in(source: fx.Node) -> Any:
    """A tensor like the value of a node; the state of random numbers is made by the op that returns it.

    The backward pass of attention reads that state on the processor, while the graph says that it lies on the GPU: a
    made-up one ends the process.
    """
    if (branch := _branch(source)) is not None:
        return branch
    value = source.meta["val"]
    if source.target is operator.getitem and isinstance(value, torch.Tensor) and _holds_state(value):
        maker = source.all_input_nodes[0]
        if isinstance(maker.target, torch._ops.OpOverload) and DRAWS in maker.target.tags:
            return _call(maker)()[source.args[1]]
    return _like(value)


def _branch(node: fx.Node) -> fx.GraphModule | None:
    """What a node of an op of higher order, such as `torch.cond`, runs; None if the node is no such branch."""
    module = node.graph.owning_module
    found = getattr(module, str(node.target), None) if node.op == "get_attr" and module is not None else None
    return found if isinstance(found, fx.GraphModule) else None


DRAWS = torch.Tag.nondeterministic_seeded
MOST_STATE = 2
"""Whole numbers that a generator of random numbers needs."""


def _holds_state(value: torch.Tensor) -> bool:
    return not value.dtype.is_floating_point and value.numel() <= MOST_STATE


COPIED_BYTES = 1 << 26
"""What is copied to find out how fast memory is: more than the caches of a processor hold."""
COPIED_CUDA_BYTES = 1 << 29
"""The same for a GPU."""


@functools.cache
def rate_Bps(device: torch.device) -> float:
    """Bytes per second that a copy reads and writes, for ops that do little else."""
    with _disable_current_modes(), torch.no_grad():
        size = COPIED_CUDA_BYTES if device.type == "cuda" else COPIED_BYTES
        data = torch.zeros(size, dtype=torch.uint8, device=device)
        return 2 * size / _timed([lambda: data.clone()], device).seconds


@functools.cache
def host_Bps(device: torch.device) -> tuple[float, float]:
    """Bytes per second of a copy to the host's memory, and back."""
    with _disable_current_modes(), torch.no_grad():
        size = COPIED_CUDA_BYTES if device.type == "cuda" else COPIED_BYTES
        here, there = torch.zeros(size, dtype=torch.uint8, device=device), host.room(size, device)
        to, back = (
            size / _timed([functools.partial(one.copy_, other, non_blocking=True)], device).seconds
            for one, other in ((there, here), (here, there))
        )
    return to, back


def _timed(calls: Sequence[Callable[[], Any]], device: torch.device) -> Timing:
    """What an op takes. Its `calls` have inputs of their own, and take turns."""
    turns = itertools.cycle(calls)

    def run() -> Any:
        return next(turns)()

    result = run()  # the first run may choose an algorithm and fill caches
    results = result if isinstance(result, tuple | list) else (result,)
    held = tuple(one.untyped_storage().nbytes() if isinstance(one, torch.Tensor) else 0 for one in results)
    del result, results
    peak = peak_of(run, device)
    seconds, spent = [_run_seconds(run, device, 1)], 0.0
    row = min(MOST_IN_A_ROW, math.ceil(SHORT_S / max(seconds[0], 1e-9))) if device.type == "cuda" else 1
    while len(seconds) < FEWEST_RUNS or (spent < ENOUGH_S and len(seconds) < MOST_RUNS):
        seconds.append(_run_seconds(run, device, row))
        spent += row * seconds[-1]
    return Timing(min(seconds), peak, held)


def _run_seconds(run: Callable[[], Any], device: torch.device, row: int) -> float:
    """Seconds per run, of `row` runs in a row.

    A GPU runs one op while the next is launched, so that several in a row take what they take within a step.
    """
    if device.type != "cuda":
        begin = time.perf_counter()
        for _ in range(row):
            run()
        return (time.perf_counter() - begin) / row
    event: Any = torch.cuda.Event
    begun, ended = event(enable_timing=True), event(enable_timing=True)
    with torch.cuda.device(device):
        begun.record()
        for _ in range(row):
            run()
        ended.record()
        ended.synchronize()
    return float(begun.elapsed_time(ended)) / 1e3 / row


def device_of(node: fx.Node) -> torch.device:
    """Where an op runs."""
    for tensor in tensors_of(
        [node.meta.get("val"), *(source.meta.get("val") for source in node.all_input_nodes)]
    ):
        return tensor.device
    return torch.device("cpu")


def moved_bytes(node: fx.Node) -> int:
    """Bytes that an op reads and writes."""
    values = [node.meta.get("val"), *(source.meta.get("val") for source in node.all_input_nodes)]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors_of(values))


def _like(value: Any) -> Any:
    """Real tensors for fake ones: normal numbers, or zeros, which are valid indices."""

    def real(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        reach = 1 + sum((size - 1) * step for size, step in zip(leaf.shape, leaf.stride(), strict=True))
        data = torch.empty(reach if leaf.numel() else 0, dtype=leaf.dtype, device=leaf.device)
        data = data.normal_() if leaf.dtype.is_floating_point else data.zero_()
        return data.as_strided(tuple(leaf.shape), leaf.stride())  # what is expanded lies there once

    return tree_map(real, value)


TIMES = Times({}, on_disk=True)
"""What was measured in this process, and on this machine before."""
