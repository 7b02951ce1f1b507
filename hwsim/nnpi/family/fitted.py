"""A fitted chip file: each fitted value with its 90 % interval and the value before.

A chip file has no place for latencies of accesses, for transfers that wait, and for single ops: who calls says what
becomes of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hwsim.family import Effects, Estimate
from hwsim.nnpi.chip import Chip, Factors, Memory, parse_chip
from hwsim.nnpi.chip_template import template
from hwsim.nnpi.family.terms import LAUNCH_S, SWITCHES
from workloads.workload import KINDS

DESCRIBABLE = (*SWITCHES, "overhead")
"""Effects that a chip file can have."""


class _Values:
    """Fitted values, and notes on them by where they stand in the file (see `template`)."""

    def __init__(self, estimates: Mapping[str, Estimate], title: str) -> None:
        self.estimates, self.notes = estimates, {"": title}

    def value(self, parameter: str, where: str, before: float) -> float:
        """The fitted value of a constant."""
        found = self.estimates.get(parameter)
        if found is None:
            return before
        self.notes[where] = f"{before:.4g} before; {before * found.low:.4g} to {before * found.high:.4g}"
        return _rounded(before * found.factor)

    def clock_Hz(self, before: float) -> float:
        """The clock: compute times are over it."""
        found = self.estimates.get("compute")
        if found is None:
            return before
        note = f"{before:.4g} before; {before / found.high:.4g} to {before / found.low:.4g}"
        self.notes["compute.clock_Hz"] = note
        return _rounded(before / found.factor)

    def memories(self, chip: Chip) -> tuple[Memory, ...]:
        """None is slower than the one before it."""
        memories, least = [], 0.0
        for memory in chip.memories:
            where = f"memories.{memory.name}.bandwidth_Bps"
            rate = self.value(f"bandwidth {memory.name}", where, memory.bandwidth_Bps)
            if rate < least:
                self.notes[where] = (
                    f"{self.notes.get(where, 'not fitted')}; {rate:.4g} raised to the slower memory's"
                )
            least = max(rate, least)
            memories.append(replace(memory, bandwidth_Bps=least))
        return tuple(memories)

    def factors(self, table: str, before: Mapping[str, float]) -> dict[str, float]:
        """By kind of op, those of kinds that were not measured as they were."""
        return {
            kind: self.value(f"{table} of {kind} ops", f"factors.{table}.{kind}", before.get(kind, 1.0))
            for kind in KINDS
            if f"{table} of {kind} ops" in self.estimates or kind in before
        }


def fitted(chip: Chip, estimates: Mapping[str, Estimate], effects: Effects, name: str) -> tuple[Chip, str]:
    """The chip so described, and its file. A memory is never slower than the one before it, as chip files want it.

    Raises:
        InputError: the name is none for a chip.
    """
    of = _Values(
        estimates, f"# {chip.name}, fitted to measurements. After a value: before; the 90 % interval."
    )
    launch_s = chip.overhead.launch_s
    if "overhead" in effects:
        launch_s = of.value("launch", "overhead.launch_s", launch_s if chip.effects.overhead else LAUNCH_S)
    for effect in DESCRIBABLE:
        before = getattr(chip.effects, effect)
        if (effect in effects) != before:
            of.notes[f"effects.{effect}"] = f"{str(before).lower()} before"
    found = replace(
        chip,
        memories=of.memories(chip),
        compute=replace(chip.compute, clock_Hz=of.clock_Hz(chip.compute.clock_Hz)),
        overhead=replace(chip.overhead, launch_s=launch_s),
        effects=replace(chip.effects, **{effect: effect in effects for effect in DESCRIBABLE}),
        factors=Factors(
            of.factors("compute", chip.factors.compute), of.factors("traffic", chip.factors.traffic)
        ),
    )
    text = template(found, name, of.notes)
    return parse_chip(text, f"{name}.toml"), text


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")
