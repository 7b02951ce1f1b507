"""The algorithms that a `MemoryPlanningPass` is given: one that searches, one that applies a plan file."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from executorch.exir.banked_memory_planning import BankedGreedy, BankPlacementError, TargetMemoryMap
from executorch.exir.memory_planning import MemoryAlgoResult, MemoryPlanningAlgorithmSuite, SpecAllocResult
from executorch.exir.schema import DeviceType
from executorch.exir.tensor import TensorSpec

from egrl_edge.executorch import specs as of_specs
from egrl_edge.executorch.placing import Effort, Placer, Question, with_constants
from egrl_edge.executorch.plan import Bank, Plan, Row, objects_of
from egrl_edge.executorch.plan_file import Lying
from egrl_edge.executorch.target import Target
from workloads.errors import InputError

NAME = "egrl"


class Planner(Protocol):
    """A planner that places tensors."""

    @property
    def map(self) -> TargetMemoryMap: ...

    def plan(self, question: Question, constants: of_specs.Exported | None) -> Plan:
        """The plan; InputError in one line where there is none. `constants` are given where `takes_constants`."""

    @property
    def takes_constants(self) -> bool: ...


@dataclass(frozen=True)
class Search:
    """A placement that is searched for, or proved (see `egrl_edge.executorch.planner`)."""

    target: Target
    effort: Effort
    takes_constants: bool

    @property
    def map(self) -> TargetMemoryMap:
        """The banks."""
        return self.target.map

    def plan(self, question: Question, constants: of_specs.Exported | None) -> Plan:
        """The best of what is found and what BankedGreedy has."""
        begun = time.monotonic()
        plan = Placer(question, self.target, self.effort).plan()
        if constants is not None:
            plan = with_constants(plan, constants, self.target)
        return replace(plan, seconds=time.monotonic() - begun)


@dataclass(frozen=True)
class Given:
    """A placement that a plan file has."""

    tensors: Mapping[str, Lying]
    map: TargetMemoryMap
    where: str
    takes_constants: bool = False

    def plan(self, question: Question, constants: of_specs.Exported | None) -> Plan:
        """The file's plan for these tensors. InputError where it is for others, or the judge refuses it."""
        banks = {bank.name: bank for bank in question.banks}
        rows, exported = [], question.exported
        for tensor, (first, last) in zip(exported.program.tensors, exported.lives, strict=True):
            lying = self.tensors.get(tensor.name)
            if lying is None and tensor.size_bytes == 0:
                lying = Lying(question.banks[0].name, 0, 0)
            if lying is None or lying.size_bytes != tensor.size_bytes or lying.bank not in banks:
                found = "none" if lying is None else f"{lying.size_bytes} bytes in {lying.bank}"
                raise InputError(
                    f"{self.where}: {tensor.name}: expected {tensor.size_bytes} bytes in one of"
                    f" {', '.join(banks)}, found {found}"
                )
            bank = banks[lying.bank]
            pin = question.pins.get(tensor.name, bank.mem_id)
            if pin != bank.mem_id:
                raise InputError(f"{self.where}: {tensor.name}: expected mem_id {pin}, found {bank.mem_id}")
            size = -(-tensor.size_bytes // bank.align_bytes) * bank.align_bytes
            rows.append(Row(tensor.name, size, first, last, bank.mem_id, lying.offset_bytes))
        plan = Plan(question.banks, tuple(rows), "plan")
        broken = plan.violations()
        if broken:
            raise InputError(f"{self.where}: {broken[0]}")
        return plan


class Algorithm(MemoryPlanningAlgorithmSuite):
    """A `memory_planning_algo`; `plans` has the plan of each graph that it was called for."""

    def __init__(self, planner: Planner) -> None:
        super().__init__([self._plan])
        self.__name__ = NAME
        self.plans: list[Plan] = []
        self._planner = planner
        self._with_constants = False

    def _plan(
        self,
        alignment: int,
        specs: Iterable[TensorSpec],
        graph_module: torch.fx.GraphModule,
        graph_signature: Any = None,
        extra_padding: int = 0,
    ) -> MemoryAlgoResult:
        """What ExecuTorch calls for one graph. InputError where no plan is found, or the graph has graphs inside."""
        of_specs.check_flat(graph_module, graph_signature)
        given = list(specs)
        if any(spec.device != DeviceType.CPU for spec in given):
            raise InputError("specs: expected tensors on the CPU only, found some on another device")
        roots = [spec for spec in given if spec.storage_base is None]
        exported = of_specs.read(graph_module, roots, NAME)
        constants = None
        if self._planner.takes_constants and graph_signature is not None:
            # Methods share their arenas, and each would write its constants over the other's.
            if self._with_constants:
                raise InputError(
                    "constants=True: expected a program of one method and a planner of its own, found a second method"
                )
            self._with_constants = True
            parameters = graph_signature.inputs_to_parameters  # no lifted constant: the runtime fills none
            constants = of_specs.read(graph_module, roots, NAME, parameters)
        banks = tuple(self._banks(alignment, extra_padding))
        known = {bank.mem_id for bank in banks}
        names = {spec: name for name, spec in exported.of_name.items()}
        outside = sorted({spec.mem_id for spec in roots if spec.mem_id is not None} - known)
        if outside:
            raise InputError(
                f"mem_id: expected pins to the map's banks ({', '.join(map(str, sorted(known)))}), found"
                f" {names[next(s for s in roots if s.mem_id == outside[0])]} pinned to {outside[0]}"
            )
        pins = {names[spec]: spec.mem_id for spec in roots if spec.mem_id is not None}
        greedy = self._greedy(alignment, given, graph_module, graph_signature, extra_padding, names)
        plan = self._planner.plan(Question(exported, banks, pins, greedy), constants)
        broken = plan.violations()
        if broken:
            raise RuntimeError(f"the judge refuses the plan: {'; '.join(map(str, broken[:3]))}")
        self.plans.append(plan)
        return _result(plan, constants or exported, given, alignment, extra_padding)

    def _banks(self, alignment: int, padding: int) -> Iterable[Bank]:
        for bank in self._planner.map.banks:
            align = bank.alignment or alignment
            if align % alignment:
                raise InputError(
                    f"{bank.name}: expected an alignment that is a multiple of the graph's {alignment}, found {align}"
                )
            yield Bank(bank.name, bank.mem_id, bank.size - padding, align)

    def _greedy(
        self,
        alignment: int,
        given: Sequence[TensorSpec],
        graph: torch.fx.GraphModule,
        signature: Any,
        padding: int,
        names: dict[TensorSpec, str],
    ) -> dict[str, tuple[int, int]] | None:
        try:
            result = BankedGreedy(self._planner.map)(alignment, given, graph, signature, padding)
        except BankPlacementError:
            return None
        return {
            names[spec]: (found.mem_id, found.mem_offset)
            for spec, found in result.spec_dict.items()
            if spec in names
        }


def _result(
    plan: Plan,
    exported: of_specs.Exported,
    given: Sequence[TensorSpec],
    alignment: int,
    padding: int,
) -> MemoryAlgoResult:
    """A plan in ExecuTorch's words."""
    banks = {bank.mem_id: bank for bank in plan.banks}
    rows = {row.name: row for row in plan.rows}
    objects = objects_of(plan.rows)
    found: dict[TensorSpec, SpecAllocResult] = {}
    for name, spec in exported.of_name.items():
        if name in rows:
            row: Row = rows[name]
            spec.realign(banks[row.mem_id].align_bytes)
            found[spec] = SpecAllocResult(row.mem_id, objects[name], row.offset_bytes)
    for spec in given:
        if spec.storage_base is not None:
            spec.realign(alignment)
            offset, base = 0, spec
            while base.storage_base is not None:
                offset, base = offset + base.storage_base_offset, base.storage_base
            within = found[base]
            found[spec] = SpecAllocResult(within.mem_id, within.mem_obj_id, within.mem_offset + offset)
    sizes = [0] * (max(banks) + 1)
    for mem_id, bank in banks.items():
        used = plan.used_bytes(bank)
        sizes[mem_id] = used + padding if used else 0
    return MemoryAlgoResult(found, sizes)
