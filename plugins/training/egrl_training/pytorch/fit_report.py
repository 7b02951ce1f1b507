"""What `fits` answers, for people and as a document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from egrl_training.pytorch.at_peak import Held
from egrl_training.pytorch.optimizers import NONE, OptimizerBytes
from workloads.text import size_text

KIND, VERSION = "fits", 1
ALL, THEIRS, WITHIN, LEAST = (
    "every value kept",
    "PyTorch's own plan",
    "egrl, within the memory",
    "egrl, least peak",
)
NOT_COUNTED = (
    "Peaks are those of the backend {backend}. Times are estimated from operations and bytes, scratch of ops from their"
    " shapes. Not counted: what driver and libraries keep for themselves, and gaps between tensors"
)


@dataclass(frozen=True)
class Row:
    """One plan.

    Attributes:
        plan: its name.
        peak_bytes: of both passes and the optimizer's step.
        more_time: estimated share by which both passes take longer than with every value kept.
        largest_batch: that fits with such a plan; None if it is not known.
        more_time_there: `more_time` of the fastest plan found at the largest batch; None if there is none.
    """

    plan: str
    peak_bytes: int
    more_time: float
    largest_batch: int | None = None
    more_time_there: float | None = None


@dataclass(frozen=True)
class Fit:
    """The answer.

    Attributes:
        name: of the step.
        memory_bytes: of the device.
        rows: plans by name; `WITHIN` only if one is known that fits.
        optimizer: what it takes.
        stepping_bytes: in memory while the optimizer steps.
        held: the largest tensors at the peak with every value kept.
        batch: of the inputs; None if they have none in common.
        remark: why largest batches are not known; "" if they are.
        backend: of `torch.compile`.
    """

    name: str
    memory_bytes: int
    rows: dict[str, Row]
    optimizer: OptimizerBytes
    stepping_bytes: int
    held: Sequence[Held]
    batch: int | None
    remark: str = ""
    backend: str = "aot_eager"

    @property
    def fits(self) -> bool:
        """True if a plan is known that fits."""
        return WITHIN in self.rows

    @property
    def sentence(self) -> str:
        """The answer in a sentence or two."""
        return f"{self._verdict()}{self._batches()}"

    def _verdict(self) -> str:
        whole, theirs, memory = self.rows[ALL].peak_bytes, self.rows[THEIRS], size_text(self.memory_bytes)
        if whole <= self.memory_bytes:
            return f"Fits in {memory}: needs {size_text(whole)}."
        if self.stepping_bytes > self.memory_bytes:
            return f"Does not fit: the optimizer's step alone needs {size_text(self.stepping_bytes)} of {memory}."
        if not self.fits:
            least = size_text(self.rows[LEAST].peak_bytes)
            return f"Does not fit: needs {size_text(whole)}, and {least} with recomputation, of {memory}."
        text = f"Does not fit: needs {size_text(whole)}."
        if theirs.peak_bytes <= self.memory_bytes:
            needs, more = size_text(theirs.peak_bytes), _more(theirs.more_time)
            text += f" Fits as torch.compile plans it: {needs} at {more} time."
        return f"{text} Fits with recomputation in {memory} at {_more(self.rows[WITHIN].more_time)} time."

    def _batches(self) -> str:
        found = [self.rows[name].largest_batch for name in (ALL, THEIRS, LEAST)]
        if None in found:
            return ""
        if not any(found):
            return " Not one sample fits."
        without, theirs, ours = (str(batch or "none") for batch in found)
        return f" Largest batch: {without} without, {theirs} with PyTorch's, {ours} with egrl."

    def __str__(self) -> str:
        lines = [self.sentence, "", *_table(self), ""]
        if self.optimizer.name != NONE:
            state, step = size_text(self.optimizer.state), size_text(self.optimizer.step)
            remark = f", {self.optimizer.remark}" if self.optimizer.remark else ""
            lines.append(
                f"The optimizer ({self.optimizer.name}): {state} of state; its step takes {step} beside{remark}."
            )
        else:
            lines.append("No optimizer is counted.")
        lines += ["The largest tensors at the peak, with every value kept:"]
        lines += [f"  {held}" for held in self.held]
        if self.remark:
            lines.append(f"Largest batch: not known: {self.remark}")
        return "\n".join([*lines, f"{NOT_COUNTED.format(backend=self.backend)}."])

    def document(self) -> dict[str, Any]:
        """The same for programs."""
        return {
            "kind": KIND,
            "version": VERSION,
            "name": self.name,
            "backend": self.backend,
            "sentence": self.sentence,
            "fits": self.fits,
            "memory_bytes": self.memory_bytes,
            "batch": self.batch,
            "plans": [asdict(row) for row in self.rows.values()],
            "optimizer": asdict(self.optimizer),
            "stepping_bytes": self.stepping_bytes,
            "held": [asdict(held) for held in self.held],
            "remark": self.remark,
        }


def _more(share: float) -> str:
    """+12 %, or +2.3 %: one digit more of little."""
    percent = 100 * max(share, 0.0)
    return f"{percent:+.1f} %" if 0.05 <= percent < 9.95 else f"{percent:+.0f} %"


def _table(fit: Fit) -> list[str]:
    batch = "" if fit.batch is None else f" (batch {fit.batch})"
    rows = [("plan", f"peak{batch}", "time", "largest batch", "time there")]
    for row in fit.rows.values():
        known = "" if row.largest_batch is None else str(row.largest_batch or "none")
        there = "" if row.more_time_there is None else _more(row.more_time_there)
        rows.append((row.plan, size_text(row.peak_bytes), _more(row.more_time), known, there))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [first.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return lines
