"""The confirmed speedup of a run on a board: once per generation the leading mapping is measured again.

The best of many noisy measurements is partly lucky. A measurement made after a mapping was chosen had no part in the
choice, so it is not biased by that luck:

    at the end of a generation    one mapping is chosen: a challenger, whose measurement in the search was better than
                                  the incumbent's fresh ones, or after each challenge the incumbent itself
    in the next generation        it is measured once more, before anything else
    at the end of that            a challenger is out if its fresh latency is above the incumbent's; it becomes the
                                  incumbent once it has as many fresh measurements as the incumbent

The speedup that is reported is the incumbent's, by its fresh measurements alone. If no challenger is left, the
incumbent is measured further, until its interval is as narrow as `width`.

What is asked and answered is kept in RUN/confirmations.jsonl by generation: what a resumed run asks again, it knows.

Source: incumbent and challengers in SMAC (Hutter, Hoos and Leyton-Brown, Sequential model-based
optimization for general algorithm configuration, 2011, procedure Intensify), here one measurement per generation.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from egrl.core.archive import Archive, Proposals
from egrl.core.contracts import CONFIRMED
from egrl.measure.board_executor import BoardExecutor
from egrl.measure.config import EvaluatorConfig
from egrl.measure.records import Lines, Record, digest
from hwsim.measure import Measurement, Statistic, speedup_interval
from hwsim.problem import Evaluation, Keys, Status
from workloads.errors import RunFailure

FILE = "confirmations.jsonl"
KIND = "confirmation"
VERSION = 1


class Confirmations:
    """All that were measured again, by generation; in memory and, once attached, in the run folder."""

    def __init__(self, config: EvaluatorConfig, noise: float) -> None:
        """`noise` is the relative standard deviation of a measurement."""
        self._config, self._noise = config, noise
        self._fresh: dict[int, Fresh] = {}
        self._lines: Lines | None = None

    def attach(self, folder: Path) -> None:
        """Begin with what the run folder has, and write there. RunFailure where the disk refuses."""
        self._lines = Lines(folder / FILE, "the confirmations of the run", KIND, VERSION)
        for entry in self._lines.found:
            self._read(entry)

    def close(self) -> None:
        """Write no more. RunFailure where the disk refuses."""
        lines, self._lines = self._lines, None
        if lines is not None:
            lines.close()

    def at(self, generation: int) -> Fresh | None:
        """What was chosen at the end of that generation; None where nothing was."""
        return self._fresh.get(generation)

    def answer(self, fresh: Fresh, latency_s: tuple[float, ...]) -> None:
        """Keep what a board said. RunFailure where the disk refuses."""
        fresh.latency_s = latency_s
        self._append(fresh)

    def choose(self, generation: int, archive: Archive) -> Fresh | None:
        """Choose whom to measure again after that generation; None where nobody is.

        Chosen is from what was known at the end of it, so that a resumed run chooses the same.
        """
        challenge = self._challenge_before(generation)
        again = challenge.incumbent if self._unsure(challenge) else None
        chosen = challenge.challenger or (again if challenge.due else None)
        chosen = chosen or self._challenger(challenge, archive) or again
        before = self._fresh.get(generation)
        if chosen is not None and before is not None and before.key == chosen.key:
            return before
        self._fresh.pop(generation, None)
        if chosen is None:
            return None
        self._fresh[generation] = Fresh(generation, chosen.ticket, chosen.key)
        self._append(self._fresh[generation])
        return self._fresh[generation]

    def _unsure(self, challenge: Challenge) -> bool:
        incumbent = challenge.confirmed
        return incumbent is not None and incumbent.half_width > self._config.width

    def _challenger(self, challenge: Challenge, archive: Archive) -> Fresh | None:
        """The best in the search that beats the incumbent's confirmed value and was never measured again itself."""
        worth = math.inf if challenge.confirmed is None else challenge.confirmed.value
        for ticket in contenders(archive, self._noise, max(self._config.contenders, 1), challenge.values):
            key = digest(archive.mappings(np.array([ticket]))[0])
            if key not in challenge.samples and archive.column("cost")[ticket] < worth:
                return Fresh(0, ticket, key)
        return None

    def row(self, generation: int, baseline: Measurement) -> dict[str, float]:
        """The columns of a generation: the speedup that holds, and its 95% interval; NaN before any is known."""
        incumbent = self._challenge_before(generation).confirmed
        if incumbent is None:
            return dict.fromkeys(CONFIRMED, math.nan)
        low, high = speedup_interval(incumbent, baseline)
        return dict(zip(CONFIRMED, ((low + high) / 2, low, high), strict=True))

    def _challenge_before(self, generation: int) -> Challenge:
        """How it stands, from the answers to all that was chosen before that generation's end."""
        challenge = Challenge(self._config.statistic, self._noise)
        for number in sorted(number for number in self._fresh if number < generation):
            if self._fresh[number].latency_s is not None:
                challenge.run(self._fresh[number])
        return challenge

    def _read(self, entry: Mapping[str, Any]) -> None:
        """One that is no confirmation is passed over."""
        try:
            latency: Sequence[float] | None = entry["latency_s"]
            found = None if latency is None else tuple(float(s) for s in latency)
            number = int(entry["generation"])
            self._fresh[number] = Fresh(number, int(entry["evaluation"]), str(entry["mapping"]), found)
        except (ValueError, KeyError, TypeError):
            return

    def _append(self, fresh: Fresh) -> None:
        if self._lines is not None:
            latency = None if fresh.latency_s is None else list(fresh.latency_s)
            entry = {"generation": fresh.generation, "evaluation": fresh.ticket, "mapping": fresh.key}
            self._lines.add(entry | {"latency_s": latency})


class ConfirmingBoards:
    """An executor: boards that also measure the best mapping again, once per generation."""

    def __init__(self, boards: BoardExecutor) -> None:
        """Boards that have measured the baseline, and know their noise and their run folder."""
        self._boards = boards
        baseline = boards.measurements.get(digest(boards.baseline))
        assert baseline is not None
        self._baseline = Measurement(baseline.samples_s, boards.config.statistic, boards.noise)
        self._confirmations = Confirmations(boards.config, boards.noise)
        if boards.folder is not None:
            self._confirmations.attach(boards.folder)
        self._wanted: tuple[Fresh, Archive] | None = None
        self._under_way: Fresh | None = None
        self._answered = threading.Condition()
        self._failure: RunFailure | None = None

    def submit(self, proposals: Proposals, key: Keys) -> None:
        """Queue the rows, and before them who was chosen at the end of the last generation."""
        if self._wanted is not None:
            (fresh, archive), self._wanted = self._wanted, None
            self._ask(fresh, archive)
        self._boards.submit(proposals, key)

    def ready(self, timeout_s: float) -> list[tuple[Proposals, Evaluation]]:
        """Rows measured since the last call."""
        return self._boards.ready(timeout_s)

    def rest(self) -> bool:
        """Drop the queue, wait for what is being measured."""
        return self._boards.rest()

    def close(self) -> None:
        """End the boards."""
        self._boards.close()
        self._confirmations.close()

    def confirm(self, generation: int, archive: Archive) -> Mapping[str, float]:
        """The columns of a generation that has ended, once the answer to what was chosen at the last one's end is here.

        RunFailure where the disk refuses it.
        """
        before = self._confirmations.at(generation - 1)
        if before is not None and before.latency_s is None:
            self._await(before, archive)
        if self._failure is not None:
            raise self._failure
        row = self._confirmations.row(generation, self._baseline)
        chosen = self._confirmations.choose(generation, archive)
        self._wanted = None if chosen is None or chosen.latency_s is not None else (chosen, archive)
        return row

    def _ask(self, fresh: Fresh, archive: Archive) -> None:
        if fresh.ticket < len(archive) - archive.window:  # its mapping is no longer kept
            self._confirmations.answer(fresh, ())
            return
        mapping = archive.mappings(np.array([fresh.ticket]))[0]
        self._under_way = fresh
        self._boards.measure_afresh(mapping, fresh.ticket, lambda record: self._take(fresh, record))

    def _await(self, fresh: Fresh, archive: Archive) -> None:
        """Until it is answered, or the boards rest; asked again first where a run goes on that had not got so far."""
        if self._under_way is not fresh:
            self._ask(fresh, archive)
        with self._answered:
            while fresh.latency_s is None and self._failure is None and not self._boards.over:
                self._answered.wait(0.1)

    def _take(self, fresh: Fresh, record: Record) -> None:
        with self._answered:
            try:
                self._confirmations.answer(fresh, record.samples_s)
            except RunFailure as failure:
                self._failure = failure
            self._answered.notify_all()


FAILED = (math.inf,)
"""The latency of what did not run."""


@dataclass
class Fresh:
    """A mapping that is measured again.

    Attributes:
        generation: the one at the end of which it was chosen.
        ticket: the evaluation that it is of.
        key: the mapping's digest.
        latency_s: the answer, one or more samples; none where it failed; None: it is not there yet.
    """

    generation: int
    ticket: int
    key: str
    latency_s: tuple[float, ...] | None = None


class Challenge:
    """The incumbent and its challengers, answer by answer.

    Attributes:
        samples: latencies by digest, `FAILED` where one measurement failed.
        incumbent, challenger: their last measurements; None where there is none.
        due: whether the incumbent is measured next, a challenge being over.
    """

    def __init__(self, statistic: Statistic, noise: float) -> None:
        """As latencies are taken of samples, and the relative noise of one."""
        self._statistic, self._noise = statistic, noise
        self.samples: dict[str, tuple[float, ...]] = {}
        self.incumbent: Fresh | None = None
        self.challenger: Fresh | None = None
        self.due = False

    @property
    def confirmed(self) -> Measurement | None:
        """The incumbent's fresh measurements."""
        return None if self.incumbent is None else self._of(self.incumbent)

    @property
    def values(self) -> dict[str, float]:
        """Digest -> latency, of all that were measured again."""
        return {key: Measurement(taken, self._statistic).value for key, taken in self.samples.items()}

    def _of(self, fresh: Fresh) -> Measurement:
        return Measurement(self.samples[fresh.key], self._statistic, self._noise)

    def run(self, fresh: Fresh) -> None:
        """Take an answer in."""
        failed = not fresh.latency_s or self.samples.get(fresh.key) == FAILED
        taken = FAILED if failed else self.samples.get(fresh.key, ()) + (fresh.latency_s or ())
        self.samples[fresh.key] = taken
        self.due = False
        if self.incumbent is None or fresh.key == self.incumbent.key:
            self.incumbent = None if failed else fresh
            return
        out = failed or self._of(fresh).value > self._of(self.incumbent).value
        if not out and len(taken) >= len(self.samples[self.incumbent.key]):
            self.incumbent = fresh
        self.due = out or self.incumbent is fresh
        self.challenger = None if self.due else fresh


NOISE_DEVIATIONS = 3.0
"""A mapping may be the best if its cost is at most this many standard deviations of the noise above the lowest."""


def contenders(
    archive: Archive, noise: float, most: int, anew: Mapping[str, float] = MappingProxyType({})
) -> list[int]:
    """Tickets of the mappings that may be the best under that relative noise, best first, each mapping once.

    `anew`: digest -> seconds that were measured since, which count instead; infinite for what does not run any more.
    """
    first = max(0, len(archive) - archive.window)
    status, cost, partial = (archive.column(name)[first:] for name in ("status", "cost", "partial"))
    cost = np.where((status == Status.OK) & ~partial, cost, np.inf)
    reach, fresh, lowest = 1 + NOISE_DEVIATIONS * noise, 0, math.inf
    seen: dict[str, tuple[float, int]] = {}
    for at in np.argsort(cost, kind="stable").tolist():
        if cost[at] > lowest * reach or not math.isfinite(cost[at]) or fresh >= most:
            break
        key = digest(archive.mappings(np.array([first + at]))[0])
        if key not in seen:
            seen[key] = (anew.get(key, float(cost[at])), first + at)
            fresh, lowest = fresh + (key not in anew), min(lowest, seen[key][0])
    within = sorted(
        entry for entry in seen.values() if entry[0] <= lowest * reach and math.isfinite(entry[0])
    )
    return [ticket for _, ticket in within[:most]]
