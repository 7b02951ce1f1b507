"""What a soak has tried so far, in a folder: a line each outcome, so that one that was stopped goes on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from benchmarks.soaking.trial import Outcome


@dataclass
class Record:
    """The outcomes of every part, and the seconds that each part took.

    Attributes:
        path: of the file; None keeps them in memory.
        outcomes: part -> its outcomes, in order.
        seconds: part -> seconds.
    """

    path: Path | None
    outcomes: dict[str, list[Outcome]]
    seconds: dict[str, float]

    @staticmethod
    def open(path: Path | None) -> Record:
        """What the file has; an empty one where there is none. A line that was cut off is left out."""
        record = Record(path, {}, {})
        text = path.read_text() if path is not None and path.exists() else ""
        for line in text.splitlines(keepends=True):
            if line.endswith("\n"):
                entry = json.loads(line)
                record._keep(entry["part"], Outcome(entry["what"], entry["fault"]), entry["seconds"])
        return record

    def add(self, part: str, outcome: Outcome, seconds: float) -> None:
        """Another outcome, and the seconds that it took."""
        self._keep(part, outcome, seconds)
        if self.path is not None:
            entry = {"part": part, "what": outcome.what, "fault": outcome.fault, "seconds": round(seconds, 3)}
            with open(self.path, "a") as stream:
                stream.write(json.dumps(entry) + "\n")

    def of(self, part: str) -> list[Outcome]:
        """The outcomes of a part so far."""
        return self.outcomes.get(part, [])

    def _keep(self, part: str, outcome: Outcome, seconds: float) -> None:
        self.outcomes.setdefault(part, []).append(outcome)
        self.seconds[part] = self.seconds.get(part, 0.0) + seconds
