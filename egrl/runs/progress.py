"""The live progress line of a run, on stderr."""

from __future__ import annotations

import contextlib
import sys
import time
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

from egrl.core.budget import GENERATION, Budget
from egrl.core.recorder import Observer
from hwsim.jit import before_compiling


class Silent:
    """Says nothing."""

    def generation(self, row: dict[str, Any]) -> None:
        """Ignore the row."""


class ProgressBar:
    """Generation, time left, best speedup, champion, valid share, evaluations a second."""

    def __init__(self, title: str, budget: Budget, done: int) -> None:
        from tqdm import tqdm

        self._generations, self._started = 0, time.monotonic()
        self._bar = tqdm(
            total=budget.generations,
            initial=done,
            desc=title,
            unit="gen",
            file=sys.stderr,
            dynamic_ncols=True,
            mininterval=0.1 if sys.stderr.isatty() else 10.0,
            # what a narrow terminal cuts off comes last; tqdm puts ", " before a postfix that is not empty
            bar_format="{desc} |{bar:10}| {n_fmt}/{total_fmt} gens [{elapsed}<{remaining}]{postfix}"
            if budget.seconds is None
            else f"{{desc}}: {{n_fmt}} gens [{{elapsed}} of {tqdm.format_interval(budget.seconds)}]{{postfix}}",
        )

    def generation(self, row: dict[str, Any]) -> None:
        """Show the latest generation."""
        self._generations += 1
        rate = self._generations * GENERATION / max(1e-9, time.monotonic() - self._started)
        champion = row["champion_source"] or "nobody"
        self._bar.set_postfix_str(
            f"best {row['best_speedup']:.3f}x by {champion}, {row['valid_fraction']:.0%} valid, "
            f"{rate:.0f} evals/s",
            refresh=False,
        )
        try:
            self._bar.update(1)
        except OSError:  # stderr is closed or full: the run matters more than its progress line
            self._bar.disable = True

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self._bar.close()


def note(text: str, quiet: bool) -> None:
    """A line for people on stderr, where it is wanted and can be written."""
    if quiet or sys.stderr is None:
        return
    with contextlib.suppress(OSError):
        print(f"egrl: {text}", file=sys.stderr)


def compiling(quiet: bool) -> AbstractContextManager[None]:
    """Within it, a line on stderr where kernels are compiled, not loaded: that takes up to minutes."""

    def say(kept: bool) -> None:
        from tqdm import tqdm

        when = "once after installing" if kept else "numba finds no folder to keep them in"
        with contextlib.suppress(OSError):  # around a progress bar, where there is one
            tqdm.write(f"egrl: compiling kernels ({when}) …", file=sys.stderr)

    return contextlib.nullcontext() if quiet or sys.stderr is None else before_compiling(say)


def observer(title: str, budget: Budget, done: int, quiet: bool) -> AbstractContextManager[Observer]:
    """The progress bar; silence where it is not wanted or stderr cannot be written."""
    if quiet or sys.stderr is None:
        return contextlib.nullcontext(Silent())
    try:
        return ProgressBar(title, budget, done)
    except OSError:
        return contextlib.nullcontext(Silent())
