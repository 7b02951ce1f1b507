"""What is said of a search: the gain, where it comes from layer by layer, how to repeat it, and what failed."""

from __future__ import annotations

import shlex
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from egrl.runs.text import counted, ratio_text
from egrl_vela.compiler import DEFAULT, OTHER_CORES, Setting, Target, Vela
from egrl_vela.search import Found
from egrl_vela.written import KIB, MEMORIES, Layer, Written
from workloads.text import aligned

CAVEAT = "cycles and traffic are estimates of the compiler, not measurements: run both programs on the device"
MEMORY_NAMES = dict(zip(MEMORIES, ("DRAM", "flash", "on-chip flash"), strict=True))
UNLIMITED = 2**32
"""What a memory mode without a limit has as its bytes of SRAM: all that 32 bits address."""
LONGEST = 48
"""Characters of a layer's name in the table."""
MOST_REASONS = 3
"""Kinds of failures that are told."""


class Change(NamedTuple):
    """Cycles of one layer in both programs; None where a program has no such layer."""

    layer: str
    op: str
    before: float | None
    after: float | None

    @property
    def saved(self) -> float:
        """Cycles that the layer takes less."""
        return (self.before or 0.0) - (self.after or 0.0)


def changes(before: Sequence[Layer], after: Sequence[Layer]) -> list[Change]:
    """Layers of both programs, in the order of the first. The n-th of a name and an op is the n-th of the other's."""
    then, now = dict(_numbered(before)), dict(_numbered(after))
    return [Change(*key[:2], then.get(key), now.get(key)) for key in dict.fromkeys((*then, *now))]


def _numbered(layers: Sequence[Layer]) -> Iterator[tuple[tuple[str, str, int], float]]:
    seen: Counter[tuple[str, str]] = Counter()
    for layer in layers:
        yield (layer.name, layer.op, seen[layer.name, layer.op]), layer.cycles
        seen[layer.name, layer.op] += 1


def command(vela: Vela, target: Target, best: Setting) -> str:
    """The command that writes the best program without egrl, below vela-out/."""
    word = "vela" if shutil.which("vela") == vela.command else vela.command
    return shlex.join([word, *target.words(best, False), "--output-dir=vela-out"])


def headline(found: Found, best: Written, over: str = "Vela's default") -> str:
    """The gain and the memory, in one line."""
    default = found.default
    if best == default:
        gain = f"no fewer cycles than {over} in {counted(len(found.outcomes), 'compile')}"
    else:
        gain = f"{ratio_text(default.cycles / best.cycles)} fewer cycles than {over}"
    gain += ", which does not fit" if found.unfit(default) else ""
    figures = (
        f"{_cycles(default.cycles)} -> {_cycles(best.cycles)}" if best != default else _cycles(best.cycles)
    )
    of = f" of {found.room_bytes / KIB:.0f}" if found.room_bytes < UNLIMITED else ""
    sram = f"SRAM {best.sram_bytes / KIB:.0f}{of} KiB"
    return f"{gain}, by Vela's estimate ({figures}); {sram}{_traffic(default, best)}"


def lines(vela: Vela, target: Target, found: Found, best: Setting, most: int, output: str) -> list[str]:
    """All that is said; the table has `most` layers, those that change most."""
    made = found.outcomes[best].written
    assert made is not None
    told = [headline(found, made), CAVEAT]
    if any(flag in OTHER_CORES for flag in best.flags):
        told.append(f"by Vela's other core ({best.flags[0]}), whose estimate is another model's")
    if best != DEFAULT:
        told += table(changes(found.default.layers, made.layers), most)
        told.append(f"again, without egrl: {command(vela, target, best)}")
    return [*told, _tried(found), f"written: {output}"]


def _tried(found: Found) -> str:
    """How many compiles there were, and why some are of no use."""
    tried, failures = counted(len(found.outcomes), "compile"), found.failures()
    if not failures:
        return f"{tried}, none failed"
    reasons = [f"{count} x {why}" for why, count in failures.items()]
    if (more := len(reasons) - MOST_REASONS) > 0:
        reasons = [*reasons[:MOST_REASONS], f"{counted(more, 'other reason')} (--json has all)"]
    return f"{tried}, {sum(failures.values())} of no use: {'; '.join(reasons)}"


def document(
    vela: Vela, target: Target, found: Found, best: Setting, output: str, folder: Path
) -> dict[str, Any]:
    """The same as an object for JSON, with all layers."""
    made, default = found.outcomes[best].written, found.default
    assert made is not None
    rows = changes(default.layers, made.layers)
    return {
        "kind": "vela-search",
        "version": 1,
        "vela": vela.version,
        "model": target.model,
        "accelerator": target.accelerator,
        "system_config": target.system,
        "memory_mode": target.memory,
        "estimates": CAVEAT,
        "speedup": default.cycles / made.cycles,
        "sram_limit_bytes": found.room_bytes,
        "default": figures(default),
        "best": {**figures(made), "options": best.words()},
        "command": command(vela, target, best),
        "compiles": len(found.outcomes),
        "failures": found.failures(),
        "layers": [row._asdict() for row in rows],
        "output": output,
        "folder": str(folder),
    }


def figures(made: Written) -> dict[str, Any]:
    """A program as an object for JSON, without its layers."""
    return {name: value for name, value in made.document().items() if name != "layers"}


def _traffic(default: Written, best: Written) -> str:
    told = ""
    for memory, name in MEMORY_NAMES.items():
        before, after = default.traffic_bytes[memory], best.traffic_bytes[memory]
        if before and best != default:
            told += f", {name} traffic {100.0 * (after / before - 1.0):+.0f} %"
    return told


def table(rows: Sequence[Change], most: int) -> list[str]:
    """The layers that change most, as lines."""
    changed = sorted((row for row in rows if row.saved), key=lambda row: -abs(row.saved))
    if not changed or not most:
        return []
    shown = changed[:most]
    cells = [["layer", "op", "cycles before", "after", "saved"]]
    for row in shown:
        name = row.layer.partition(";")[0]
        short = name if len(name) <= LONGEST else f"…{name[1 - LONGEST :]}"
        cells.append([short, row.op, _count(row.before), _count(row.after), f"{row.saved:,.0f}"])
    if rest := changed[most:]:
        saved = sum(row.saved for row in rest)
        cells.append([f"{counted(len(rest), 'other layer')} that changed", "", "", "", f"{saved:,.0f}"])
    return aligned(cells, {0, 1})


def _count(cycles: float | None) -> str:
    return "-" if cycles is None else f"{cycles:,.0f}"


def _cycles(cycles: float) -> str:
    if cycles >= 1e5:
        return f"{cycles / 1e6:.2f} M"
    return f"{cycles / 1e3:.1f} k" if cycles >= 1e3 else f"{cycles:.0f}"
