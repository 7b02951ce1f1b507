"""The input files in a run folder: config.toml, copies of the user's files, the problems' own files.

Without these a run can neither go on nor be looked at. One that somebody deletes while the run goes on is written
again; one that was changed is left as it is: `--resume` says what does not fit.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from egrl.core import atomic
from hwsim.capabilities import HasFiles
from hwsim.problem import Problem
from workloads.errors import Notice

CONFIG = "config.toml"


class Inputs:
    """The inputs of one run.

    Attributes:
        config: the content of config.toml.
    """

    def __init__(
        self, folder: Path, config: str, problems: Sequence[Problem], copies: Mapping[str, bytes]
    ) -> None:
        """`copies` are of the user's files, by name."""
        self.config = config
        self._folder, self._problems, self._copies = folder, problems, copies
        self._there: set[Path] = set()

    def write(self) -> None:
        """Write all of them, config.toml first (it makes a run folder). RunFailure if the disk refuses."""
        for path, content in self._all():
            atomic.make_folder(path.parent)
            atomic.write(path, content)
        self.look()

    def look(self) -> None:
        """Remember which files are there now."""
        places = (self._folder, *self._folder.glob("inputs/*/"))
        self._there = {path for place in places for path in place.iterdir() if path.is_file()}

    def restore_deleted(self) -> None:
        """Write again what has been deleted, with a notice. RunFailure if the disk refuses."""
        lost = {path for path in self._there if not path.exists()}
        if not lost:
            return
        self._there -= lost
        for path, content in self._all():
            if path in lost:
                atomic.make_folder(path.parent)
                atomic.write(path, content)
                self._there.add(path)
                text = f"{path}: deleted while the run goes on; written again, nothing is lost"
                warnings.warn(Notice(text), stacklevel=4)

    def _all(self) -> Iterator[tuple[Path, str | bytes]]:
        yield self._folder / CONFIG, self.config
        for name, copy in self._copies.items():
            yield self._folder / name, copy
        for number, problem in enumerate(self._problems):
            folder = self._folder if len(self._problems) == 1 else self._folder / "inputs" / str(number)
            files = problem.files() if isinstance(problem, HasFiles) else {}
            for name, content in files.items():
                yield folder / name, content
