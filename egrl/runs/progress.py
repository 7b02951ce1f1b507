"""The live progress line of a run, on stderr."""

from __future__ import annotations

import bisect
import contextlib
import math
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, TextIO

from egrl.core.contracts import CONFIRMED, Budget, Observer
from egrl.core.log import LOG
from hwsim.jit import before_compiling, clock

SLOW_SECONDS = 1.0  # what takes longer is announced


class _Lines:
    """A stream that is no terminal, for a bar: what changed is a line of its own, nothing is written over."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._last = stream, ""

    def write(self, text: str) -> None:
        """Write a line, unless it is empty or the last one again."""
        line = text.strip()
        if line and line != self._last:
            self._last = line
            self._stream.write(f"{line}\n")

    def flush(self) -> None:
        """Flush the stream."""
        self._stream.flush()


class ProgressBar(Observer):
    """Evaluations, time left, best speedup, champion, valid share, evaluations a second. In a file or a pipe: lines.

    If the last gain was `IDLE` generations ago, the evaluations since.
    """

    def __init__(self, title: str, budget: Budget, known: int, gains: Gains | None = None) -> None:
        """`known`: evaluations that were made before. `gains` is told of each generation before this is."""
        from tqdm import tqdm

        self._gains = gains
        self._known, self._count, self._started = known, known, clock()
        self._phase, self._row, self._most = "", "", ""
        time_limit = "" if budget.seconds is None else f" of {tqdm.format_interval(budget.seconds)}"
        self._plain = f"{{desc}}: {{n_fmt}} evals [{{elapsed}}{time_limit}]{{postfix}}"
        # What a narrow terminal cuts off comes last; tqdm puts ", " before a postfix that is not empty.
        terminal = sys.stderr.isatty()
        bar = " |{bar:10}| " if terminal else ": "
        self._full = f"{{desc}}{bar}{{n_fmt}}/{{total_fmt}} evals [{{elapsed}}<{{remaining}}]{{postfix}}"
        self._estimates = budget.evaluations is not None
        self._generation_evals = budget.generation_evals
        self._bar = tqdm(
            total=budget.evaluations,
            initial=known,
            desc=title,
            unit="eval",
            file=sys.stderr if terminal else _Lines(sys.stderr),
            dynamic_ncols=True,
            mininterval=0.1 if terminal else 10.0,
            bar_format=self._plain,
        )

    def phase(self, text: str) -> None:
        """Show what the method does now, instead of an estimate of the time that is left."""
        if text != self._phase:
            self._phase = text
            self._show(force=True)

    def evaluations(self, count: int, best_speedup: float) -> None:
        """Show how many there are; the time left only once a generation has shown how long one takes."""
        if self._estimates and count - self._known >= self._generation_evals:
            self._bar.bar_format = self._full
        if not self._row and best_speedup > 0:
            self._bar.set_postfix_str(f"best {best_speedup:.3f}x", refresh=False)
        new, self._count = count - self._count, count
        self._update(new)

    def bound(self, speedup: float) -> None:
        """Show it from the next generation on."""
        self._most = f" (at most {speedup:.3f}x)"

    def generation(self, row: Mapping[str, Any]) -> None:
        """Show the latest generation."""
        rate = (self._count - self._known) / max(1e-9, clock() - self._started)
        champion = row["champion_source"] or "nobody"
        idle = 0 if self._gains is None else self._gains.idle(IDLE)
        none = f", no gain in {idle:,} evaluations" if idle else ""
        self._row = (
            f"{best_text(row)}{self._most} by {champion}{none}, {row['valid_fraction']:.0%} valid, "
            f"{rate:.{0 if rate >= 10 else 1}f} evals/s"
        )
        self._show()

    def _show(self, force: bool = False) -> None:
        self._bar.set_postfix_str(self._phase or self._row, refresh=False)
        if self._phase:
            self._bar.bar_format = self._plain
        if force:
            self._leave_out_compiling()
            with contextlib.suppress(OSError):
                self._bar.refresh()

    def _update(self, new: int) -> None:
        self._leave_out_compiling()
        try:
            self._bar.update(new)
        except OSError:  # stderr is closed or full: the run matters more than its progress line
            self._bar.disable = True

    def _leave_out_compiling(self) -> None:
        """Show the time that a limit in seconds counts."""
        self._bar.start_t = time.time() - (clock() - self._started)

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self._bar.close()


def best_text(row: Mapping[str, Any], digits: int = 3) -> str:
    """The best of a row of metrics: on a noisy board what holds of it, with its interval, once that is known.

    With its reward, where that is not the squared speedup: then the reward chose it.
    """
    value, low, high = (float(row.get(name, math.nan)) for name in CONFIRMED)
    if not math.isnan(value):
        return f"confirmed {value:.{digits}f}x ({low:.{digits}f} to {high:.{digits}f})"
    speedup = float(row["best_speedup"])
    text = f"best {speedup:.{digits}f}x" + (" as measured" if CONFIRMED[0] in row else "")
    return f"{text}, reward {float(row['best_reward']):.4f}" if reward_is_own(row) else text


def note(text: str, quiet: bool) -> None:
    """Write a line to the log and, unless quiet, to stderr if that can be written, above a progress bar there."""
    LOG.info("%s", text)
    if quiet or sys.stderr is None:
        return
    from tqdm import tqdm

    with contextlib.suppress(OSError):
        tqdm.write(f"egrl: {text}", file=sys.stderr)


@contextlib.contextmanager
def note_if_slow(text: str, quiet: bool) -> Iterator[None]:
    """Write a line to stderr if the block takes longer than `SLOW_SECONDS`."""
    timer = threading.Timer(SLOW_SECONDS, note, (text, quiet))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def compiling(quiet: bool) -> AbstractContextManager[None]:
    """Write a line to stderr if kernels are compiled in the block, not loaded: that takes up to minutes."""

    def say(kept: bool) -> None:
        from tqdm import tqdm

        when = "once for each part that is used" if kept else "there is no folder to keep them in"
        with contextlib.suppress(OSError):  # around a progress bar, where there is one
            tqdm.write(f"egrl: compiling kernels ({when}) …", file=sys.stderr)

    return contextlib.nullcontext() if quiet or sys.stderr is None else before_compiling(say)


def observer(
    title: str, budget: Budget, known: int, quiet: bool, gains: Gains | None = None
) -> AbstractContextManager[Observer]:
    """The progress bar, `known` evaluations having been made; silence where it is not wanted or cannot be written."""
    if quiet or sys.stderr is None:
        return contextlib.nullcontext(Observer())
    try:
        return ProgressBar(title, budget, known, gains)
    except OSError:
        return contextlib.nullcontext(Observer())


GAIN = 1e-4
"""A rise of the best by this share or less is no gain: with three digits it is rounding. Assumption."""
IDLE = 10
"""Generations without a gain after which that is said. Assumption."""


class Gains(Observer):
    """Knows the last gain: all evaluations after it improved the best by a share of `GAIN` at most, together.

    If a method names another best that is worse, counting begins anew. On a noisy board nothing is counted, since
    the best rises by luck there.

    Attributes:
        count: how many evaluations there have been.
    """

    def __init__(self, generation_evals: int, rows: Iterable[Mapping[str, Any]] = ()) -> None:
        """`rows` are the metrics of the generations so far, as numbers or as metrics.csv has them."""
        self._generation_evals, self.count = generation_evals, 0
        self._rises: list[tuple[float, int, float]] = []
        """What is maximised, which only rises; after how many evaluations; the speedup."""
        for row in rows:
            self.generation(row)

    def generation(self, row: Mapping[str, Any]) -> None:
        """Look at the best of another generation."""
        self.count, speedup = int(row["evaluations"]), float(row["best_speedup"])
        if CONFIRMED[0] in row or speedup <= 0:
            return
        worth = float(row["best_reward"]) if reward_is_own(row) else speedup
        if self._rises and worth < self._rises[-1][0]:
            self._rises.clear()
        if not self._rises or worth > self._rises[-1][0]:
            self._rises.append((worth, self.count, speedup))

    def idle(self, generations: int) -> int:
        """The evaluations since the last gain; 0 if they are fewer than those of so many generations."""
        since = self.count - self.last()[0]
        return since if since >= generations * self._generation_evals else 0

    def last(self) -> tuple[int, float]:
        """After how many evaluations the last gain came, and the best speedup then; all and 0 before any."""
        if not self._rises:
            return self.count, 0.0
        worth = self._rises[-1][0]
        first = bisect.bisect_left(self._rises, (worth - GAIN * abs(worth),))
        return self._rises[first][1:]

    @property
    def rises(self) -> list[tuple[int, float]]:
        """After how many evaluations the best rose, however little, and its speedup then; in order."""
        return [rise[1:] for rise in self._rises]


def reward_is_own(row: Mapping[str, Any]) -> bool:
    """True if the reward of the best of a row of metrics is not its squared speedup: then the reward chose it."""
    speedup, reward = float(row["best_speedup"]), float(row.get("best_reward", math.nan))
    return math.isfinite(reward) and speedup > 0 and not math.isclose(reward, speedup**2, rel_tol=1e-6)
