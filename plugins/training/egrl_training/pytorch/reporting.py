"""What people read of plans while they are made, on stderr, and the file that plans are saved to."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass, field
from pathlib import Path

from egrl.core import atomic
from egrl.runs.progress import compiling, note_if_slow
from egrl_training.pytorch import plan as plans
from egrl_training.pytorch.asked import may_be_written
from egrl_training.pytorch.joint import JointGraph
from egrl_training.pytorch.plan import Plan
from egrl_training.simulator.baseline import unread_text
from egrl_training.steps.step import TrainingStep
from workloads.errors import InputError
from workloads.text import size_text

CLEAR = "\r\033[K"
"""Goes to the start of a terminal's line, and clears it."""
LARGE_RESULT = 0.01
"""Results that take this share of the peak suggest that a loss is computed elsewhere."""
LARGE_UNREAD = 0.01
"""Parameters that take this share of the peak are named where no op reads them."""


class Plans(list[Plan]):
    """The plans that were made, one per graph, in the order of compilation."""


@dataclass
class Report:
    """Where plans go when they are made. InputError if `save` cannot be written."""

    made: Plans
    save: str | Path | None
    quiet: bool
    said: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        if self.save is not None and not may_be_written(self.save):
            raise InputError(f"save: expected a file in a folder that exists, found {str(self.save)!r}")

    def __call__(self, plan: Plan) -> None:
        self.made.append(plan)
        if self.save is not None:
            atomic.write_named(Path(self.save), plans.dumps(self.made))
        if not self.quiet:
            self.say(str(plan))

    def say_once(self, text: str) -> None:
        """The same line is written once."""
        if text not in self.said:
            self.said.add(text)
            self.say(text)

    def say(self, text: str) -> None:
        """Write a line to stderr, in place of what `passing` wrote."""
        cleared = CLEAR if sys.stderr.isatty() else ""
        print(f"{cleared}egrl: {text}", file=sys.stderr, flush=True)

    def passing(self, text: str) -> None:
        """Write to a terminal what is being done; the next text takes its place."""
        if not self.quiet and sys.stderr.isatty():
            print(f"{CLEAR}egrl: {text}", end="", file=sys.stderr, flush=True)

    def planning(self, joint: JointGraph, seconds: float) -> contextlib.ExitStack:
        """Within it a line says what takes long, if it does, and that kernels are compiled."""
        text = f"{joint.step.name}: timing {len(joint.ops)} ops, then searching for a plan, {seconds:g} s at most"
        stack = contextlib.ExitStack()
        stack.enter_context(note_if_slow(text, self.quiet or sys.stderr.isatty()))
        stack.enter_context(compiling(self.quiet))
        return stack

    def progress(self, done: int, of: int) -> None:
        """How many ops are timed."""
        self.passing(f"timing op {done} of {of}")

    def results(self, step: TrainingStep, plan: Plan) -> None:
        """Say if so much leaves the graph that a loss is probably computed outside of it."""
        owners = {int(step.owner[number]) for number in step.outputs}
        size = sum(step.values[number].size_bytes for number in owners if step.maker[number] >= 0)
        if not self.quiet and size > LARGE_RESULT * plan.all_peak_bytes:
            self.say(
                f"{plan.name}: it returns {size_text(size)}: what is computed of this outside, such as a loss, takes"
                " memory that no plan knows; compile both together"
            )

    def unread(self, step: TrainingStep, plan: Plan) -> None:
        """Say if much is held that no op reads."""
        size = sum(value.size_bytes for value in step.unread)
        if not self.quiet and size > LARGE_UNREAD * plan.peak_bytes:
            self.say_once(f"{plan.name}: counted, though {unread_text(step)}")

    def broken(self, name: str) -> None:
        """Say that a function has several graphs."""
        if not self.quiet:
            self.say_once(
                f"{name}: PyTorch breaks it into several graphs, and no plan knows what runs between them;"
                " fullgraph=True says where it breaks"
            )
