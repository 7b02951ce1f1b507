"""A process that schedules one network again and again by Vela's Python core: `python -m egrl_vela.legacy WORDS`.

WORDS are those of Vela's command line. The network is read and prepared once. Each line of stdin, a JSON list of
numbers for one schedule, is answered by a line of stdout: the schedule is made in a child (`os.fork`), so that none
sees another. The first line says which ops there are and what may be decided. A line {"write": [...]} ends the compile
in a child, which leaves Vela's files in the output folder.

What a schedule may differ in, by shares of what Vela itself would take (all 1: Vela's own schedule): for each op of the
NPU, the SRAM for the buffers of its weights (`propose_operator_buffering`), whether a cascade may go through it
(`CascadeBuilder._is_cascadable`), and the SRAM for the stripes of a cascade that begins with it
(`optimize_sub_schedule`); and for all ops, that of first cascades (`build_cascades_for_min_schedule`) and of weights.
Feature maps stay Vela's choice: it is exhaustive, given the rest.

Written for ethos-u-vela 5.2.0, whose Python core is deprecated: other versions may lack what is changed here.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import sys
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, TextIO

UNLIMITED = 1 << 30
"""Vela asks for buffers without a limit, too, for the schedule that it compares with."""
Shares = list[float]
"""The share for all cascades, that for all weights, then for each op three: weights, cascade, stripes."""


class Memo:
    """Results of pure functions that take most of a schedule's time, handed from children to the parent.

    Attributes:
        known: what was found, pickled, by digests of functions and arguments.
        fresh: that part which this process found.
    """

    def __init__(self) -> None:
        self.known: dict[bytes, bytes] = {}
        self.fresh: dict[bytes, bytes] = {}

    def of(self, work: Callable[..., Any], first: int = 0) -> Callable[..., Any]:
        """The function with a memory; arguments before `first` are always the same."""

        def remembered(*args: Any) -> Any:
            key = hashlib.sha256(pickle.dumps((work.__name__, args[first:]))).digest()
            if key not in self.known:
                self.known[key] = self.fresh[key] = pickle.dumps(work(*args))
            return pickle.loads(self.known[key])

        return remembered


class Core:
    """Vela's Python core, with shares in the place of its own."""

    def __init__(self, answers: TextIO) -> None:
        from ethosu.vela import cascade_builder, npu_performance, scheduler, weight_compressor

        self._answers, self._performance, self._scheduler = answers, npu_performance, scheduler
        self._non_cascadable = cascade_builder.non_cascadable_blocks
        self._shares: Shares = []
        self._numbers: dict[int, int] = {}
        made = scheduler.Scheduler
        buffering, stripes = made.propose_operator_buffering, made.optimize_sub_schedule
        cascades, cascadable = (
            made.build_cascades_for_min_schedule,
            cascade_builder.CascadeBuilder._is_cascadable,
        )
        self._schedule = scheduler.schedule_passes
        represent = made.create_scheduler_representation

        def number(of: Any, arch: Any) -> None:
            represent(of, arch)
            for op in of.sched_ops:
                self._numbers[id(op)] = len(self._numbers)

        def buffer(of: Any, op: Any, before: Any, new: Any, ref: Any, limit: int) -> Any:
            most = limit if limit > UNLIMITED else int(limit * self._of(op, 0) * self._all(1))
            return buffering(of, op, before, new, ref, most)

        def stripe(of: Any, cascade: Any, ref: Any, template: Any, limit: int) -> Any:
            return stripes(of, cascade, ref, template, int(limit * self._of(of.sched_ops[cascade.start], 2)))

        def cascade(of: Any, least: Any, template: Any, limit: int) -> None:
            cascades(of, least, template, int(limit * self._all(0)))

        def may(of: Any, op: Any, cost: Any) -> bool:
            return bool(self._of(op, 1)) and cascadable(of, op, cost)

        made.create_scheduler_representation = number
        made.propose_operator_buffering, made.optimize_sub_schedule = buffer, stripe
        made.build_cascades_for_min_schedule = cascade
        cascade_builder.CascadeBuilder._is_cascadable = may
        scheduler.schedule_passes = self.serve
        self._memo = Memo()
        scheduler.find_block_config = self._memo.of(scheduler.find_block_config, 1)
        codec = weight_compressor.mlw_codec
        weight_compressor.mlw_codec = SimpleNamespace(reorder_encode=self._memo.of(codec.reorder_encode))

    def _all(self, number: int) -> float:
        return self._shares[number] if self._shares else 1.0

    def _of(self, op: Any, kind: int) -> float:
        return self._shares[2 + 3 * self._numbers[id(op)] + kind] if self._shares else 1.0

    def serve(self, *prepared: Any) -> None:
        """In the place of Vela's `schedule_passes`: answer until stdin ends. It returns only in a child that writes."""
        self._say(self._child(partial(self._described, prepared)))
        for line in sys.stdin:
            asked = json.loads(line)
            if isinstance(asked, dict):
                child = os.fork()
                if child == 0:
                    self._shares = asked["write"]
                    self._schedule(*prepared)
                    return
                _, status = os.waitpid(child, 0)
                self._say({"code": os.waitstatus_to_exitcode(status)})
            else:
                self._say(self._child(partial(self._scheduled, prepared, asked)))
        os._exit(0)

    def _child(self, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What a child says that does some work; its error if that fails."""
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                said = work()
            except BaseException as error:  # Vela asserts, and ends the process
                said = {"error": f"{type(error).__name__}: {error}"}
            with os.fdopen(write, "wb") as pipe:
                pickle.dump((said, self._memo.fresh), pipe)
            os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            data = pipe.read()
        os.waitpid(child, 0)
        if not data:
            return {"error": "Vela was killed"}
        said, fresh = pickle.loads(data)
        self._memo.known |= fresh
        return said

    def _scheduled(self, prepared: Any, shares: Shares) -> dict[str, Any]:
        """Cycles of each op and bytes of SRAM of one schedule, as Vela estimates them."""
        from ethosu.vela.tensor import MemArea

        network, arch = prepared[:2]
        self._shares = shares
        self._schedule(*prepared)
        total, cycles = int(self._performance.PassCycles.Total), []
        for graph in network.subgraphs:
            before = None
            for op in graph.sched_ops:
                block = graph.schedule.cost_map[op].block_config
                of = self._performance.estimate_full_op_performance(arch, graph.schedule, op, before, block)
                cycles.append(float(of[2][total]))
                before = op
        used = network.get_root_subgraph().memory_used.get(MemArea.Sram, 0)
        return {"cycles": cycles, "sram": int(used)}

    def _described(self, prepared: Any) -> dict[str, Any]:
        """The ops of the NPU in their order, after Vela's own schedule."""
        found = self._scheduled(prepared, [])
        ops = []
        for graph in prepared[0].subgraphs:
            for op in graph.sched_ops:
                weights = op.parent_op.weights
                ops.append(
                    {
                        "name": op.name,
                        "kind": str(op.op_type),
                        "weights": int(weights.values.size) if weights is not None else 0,
                        "fully_connected": str(op.op_type).endswith("FullyConnected"),
                        "cascadable": op.op_type.npu_block_type not in self._non_cascadable,
                        "ifm": int(op.ifm_size_in_bytes()),
                        "ofm": int(op.ofm_size_in_bytes()),
                        "next": [self._numbers[id(other)] for other in op.get_dependants()],
                    }
                )
        limit = int(prepared[3].optimization_sram_limit)
        return {"ops": ops, "limit": limit, **found}

    def _say(self, answer: dict[str, Any]) -> None:
        self._answers.write(json.dumps(answer) + "\n")
        self._answers.flush()


def main() -> None:
    """Serve the network of the command line."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what Vela prints goes to stderr
    from ethosu.vela import vela

    Core(answers)
    vela.main([*sys.argv[1:], "--debug-force-legacy-core", "--verbose-performance"])


if __name__ == "__main__":
    main()
