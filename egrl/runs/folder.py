"""The run folder: everything a run leaves, written so that a crash at any instant loses nothing.

metrics.csv and mappings/ only grow between checkpoints; a checkpoint records how far they counted, and
resuming cuts them back to that point. docs/reference/run-folder.md lists the files.
"""

from __future__ import annotations

import csv
import errno
import hashlib
import io
import itertools
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from filelock import FileLock, Timeout

from egrl.core import atomic
from egrl.core.archive import Archive
from egrl.core.contracts import CONFIRMED, POLICY_EVERY, policy_is_due
from egrl.measure import confirming, records
from egrl.measure.config import LOG
from egrl.runs import checkpoint, chunks
from egrl.runs.chunks import Chunk, KeptChunks
from hwsim.capabilities import HasFiles, HasPlanText
from hwsim.problem import Mapping16, Problem
from workloads.errors import InputError
from workloads.files import TEMPORARY, no_link

if TYPE_CHECKING:
    from egrl.runs.events import EventFile
    from policies.store import StoredPolicy

LOCK = ".lock"
CONFIG = "config.toml"
SUMMARY = "summary.json"
METRICS = "metrics.csv"
BEST = "best_mapping.json"
SIMPLIFIED = "simplified_mapping.json"
CHECKPOINT = "checkpoint"
MAPPINGS = "mappings"
POLICIES = "policies"
PRETRAINING = "pretraining.json"
EXPLORATION = "explore.json"
START_FILE = "start_mapping.json"
BASELINE_FILE = "baseline_mapping.json"
BASELINE_LAYOUT = "baseline_layout.json"
INIT_FILE = "init_policy.safetensors"
BEFORE = "before"
"""Folders of what another board measured begin so."""
MEASURED = (
    *(SUMMARY, METRICS, BEST, SIMPLIFIED, CHECKPOINT, MAPPINGS, POLICIES, "calibration", "report.html"),
    *(records.FILE, records.BOARD, LOG, confirming.FILE),
)
"""What belongs to the board that measured it, beside event files."""
KEPT_STARTS = ("cold", "compiler", "rules")
"""Starts that follow from the problem; others are copied into the run folder."""


def locked(folder: Path) -> FileLock:
    """The lock of a folder, held until its `release`. InputError where another process holds it or none can be made."""
    lock = FileLock(folder / LOCK)
    try:
        if (folder / LOCK).is_symlink():
            raise OSError(errno.ELOOP, "a link is in its place", str(folder / LOCK))
        lock.acquire(timeout=0)
    except Timeout as error:
        raise InputError(f"{folder}: the run folder is in use by another process") from error
    except OSError as error:
        raise atomic.unwritable(str(folder), folder, error) from error
    return lock


def policies_in(path: Path) -> dict[int, Path]:
    """Generation -> the policy that a folder of a run or pre-training saved then, in order."""
    found = {
        int(file.stem.removeprefix("generation-")): file
        for file in (path / POLICIES).glob("generation-*.safetensors")
        if file.stem.removeprefix("generation-").isdecimal()
    }
    return dict(sorted(found.items()))


class RunFolder:
    """One run's folder, locked while open. Make one by `create` or `reopen`.

    Attributes:
        policy_every: generations between saved policies.
        settings: dotted key -> what the run is made with and must go on with; checkpoints keep it.
    """

    def __init__(self, path: Path) -> None:
        """InputError where another process uses the folder, it has links, or it cannot be written."""
        check_links(path)
        self.path = path
        self.policy_every = POLICY_EVERY
        self.settings: Mapping[str, Any] = {}
        self._lock = locked(path)
        self._metrics, self._chunks = MetricsFile(path / METRICS), KeptChunks(path / MAPPINGS)
        self._counted: dict[int, int] = {}  # generation of a kept checkpoint -> evaluations that it counts
        self._events: EventFile | None = None

    # ---- opening and closing

    @classmethod
    def create(cls, path: Path) -> RunFolder:
        """A new folder. InputError where it is not empty, not writable or in use."""
        try:
            path.mkdir(parents=True, exist_ok=True)
            leftovers = [p for p in path.iterdir() if p.name != LOCK and not _is_unfinished_config(p.name)]
        except OSError as error:
            raise atomic.unwritable(f"--out {path}", path, error) from error
        except ValueError as error:
            raise InputError(f"--out {str(path)!r}: expected a path: {error}") from error
        if leftovers:
            raise InputError(
                f"--out {path}: expected a new or empty folder, found {len(leftovers)} entries"
                f" ({leftovers[0].name} …); to go on with a run use --resume {path}"
            )
        return cls(path)

    @classmethod
    def reopen(cls, path: Path) -> RunFolder:
        """The folder of an earlier run. InputError where there is none, or another process uses it."""
        if "\0" in str(path) or not (path / CONFIG).is_file():
            raise InputError(f"--resume {str(path)!r}: expected a run folder with {CONFIG}, found none")
        return cls(path)

    def close(self) -> None:
        """Release the lock; the folder stays as the last checkpoint left it."""
        if self._events is not None:
            self._events.close()
        self._lock.release()

    # ---- inputs

    def write_inputs(self, config: str, problems: Sequence[Problem], copies: Mapping[str, bytes]) -> None:
        """config.toml first (it makes a run folder), then copies of the user's files (by name), the problems' own.

        A run that dies before its first checkpoint begins anew from config.toml, so that the rest may be missing.
        """
        files: dict[str, str | bytes] = {CONFIG: config, **copies}
        for number, problem in enumerate(problems):
            place = "" if len(problems) == 1 else f"inputs/{number}/"
            own = problem.files() if isinstance(problem, HasFiles) else {}
            files |= {f"{place}{name}": content for name, content in own.items()}
        for name, content in files.items():
            path = self.path / name
            atomic.make_folder(path.parent)
            atomic.write(path, content)

    def write_config(self, config: str) -> None:
        """Write config.toml if it says anything else. RunFailure if the disk refuses."""
        path = self.path / CONFIG
        if not path.is_file() or path.read_bytes() != config.encode():
            atomic.write(path, config)

    @property
    def begun(self) -> bool:
        """Whether the run has got beyond its inputs, so that these are complete."""
        left = (self.path / SUMMARY, self.path / METRICS, self.path / MAPPINGS)
        return bool(checkpoint.listing(self.path / CHECKPOINT)) or any(path.exists() for path in left)

    def put_aside(self) -> Path | None:
        """Move all that was measured to a folder `before-N` of this one; its best mapping, None where it has none.

        The inputs stay. RunFailure where the disk refuses.
        """
        number = next(n for n in itertools.count(1) if not (self.path / f"{BEFORE}-{n}").exists())
        aside = self._subfolder(f"{BEFORE}-{number}")
        names = [path.name for path in self.path.glob("events.*")]
        try:
            for name in (*MEASURED, *names):
                if (self.path / name).exists():
                    (self.path / name).rename(aside / name)
        except OSError as error:
            raise atomic.disk_failure(aside, error) from error
        self._metrics, self._chunks = MetricsFile(self.path / METRICS), KeptChunks(self.path / MAPPINGS)
        return aside / BEST if (aside / BEST).is_file() else None

    # ---- growing files

    def generation(self, row: Mapping[str, Any]) -> None:
        """One generation; see `MetricsFile.append`."""
        self._metrics.append(row)
        step = int(row["generation"])
        if self._events is None:
            from egrl.runs.events import EventFile

            self._events = EventFile(self.path, step)
        scalars = {k: v for k, v in row.items() if isinstance(v, int | float) and k != "generation"}
        self._events.append(step, scalars)

    def rows(self) -> list[dict[str, str]]:
        """The metrics of the generations so far."""
        return self._metrics.rows()

    # ---- checkpoints

    def save(
        self,
        generation: int,
        method_state: dict[str, Any] | None,
        loop_state: dict[str, Any],
        archive: Archive,
    ) -> None:
        """Make everything so far durable: mappings, metrics, then the checkpoint that counts them."""
        folder = self._subfolder(CHECKPOINT)
        self._chunks.save(archive)
        self._metrics.sync()
        tree = {
            "loop": loop_state,
            "method": method_state,
            "settings": dict(self.settings),
            "evaluations": len(archive),
            "chunks": self._chunks.digests(),
            **self._metrics.counted(),
        }
        checkpoint.save(folder, generation, tree)
        self._counted[generation] = len(archive)
        self._drop_old_chunks(archive)

    def _subfolder(self, name: str) -> Path:
        """A folder of this one, made if it is not there. RunFailure where the disk refuses, or this one is gone."""
        path = self.path / name
        try:
            path.mkdir(exist_ok=True)
        except OSError as error:
            raise atomic.disk_failure(path, error) from error
        return path

    def _drop_old_chunks(self, archive: Archive) -> None:
        """Delete what no kept checkpoint needs (after the new one is safe: until then the old ones need it)."""
        self._counted = dict(sorted(self._counted.items())[-checkpoint.KEPT :])
        if len(self._counted) < checkpoint.KEPT:
            return
        self._chunks.drop(min(self._counted.values()) - archive.window)

    def restore(
        self, archive: Archive, fingerprints: Sequence[str], load: Callable[[dict[str, Any]], None]
    ) -> dict[str, Any] | None:
        """The newest checkpoint, or None where none was reached; the folder is cut back to it, the archive filled.

        Everything is checked, and the states are given to `load`, before anything is changed.

        Raises:
            InputError: the checkpoint, metrics.csv or a chunk of mappings is damaged or missing, or the run was
                made with other `settings` or problems of other `fingerprints`.
        """
        tree = checkpoint.newest(self.path / CHECKPOINT)
        if tree is None:
            if self.begun:
                raise InputError(f"{self.path / 'checkpoint'}: expected a checkpoint of the run, found none")
            self._remove(self._unfinished())
            return None
        check_settings(tree["settings"], self.settings, str(self.path / CONFIG))
        found = tree["loop"]["fingerprints"]
        if found != list(fingerprints):
            raise InputError(
                f"{self.path}: this run was made by another simulator, chip or workload: expected fingerprint "
                f"{fingerprints[0][:12]}, found {found[0][:12]}"
            )
        size = int(tree["metrics_bytes"])
        self._metrics.check(size, tree["metrics_sha256"])
        evaluations, generation = int(tree["evaluations"]), int(tree["loop"]["generation"])
        kept, newer = self._chunks.check(tree["chunks"], evaluations, archive.window)
        chunks.fill(archive, [chunk.path for chunk in kept], evaluations, self.path / MAPPINGS)
        load(tree)
        self._cut_back(size, newer, generation)
        self._chunks.go_on(kept, tree["chunks"], evaluations)
        self._counted = {generation: evaluations}
        return tree

    def _cut_back(self, metrics_bytes: int, newer: Sequence[Chunk], generation: int) -> None:
        """Drop what is newer than a checkpoint. RunFailure where the disk refuses."""
        later = [
            path
            for number, path in policies_in(self.path).items()
            if number > generation or not policy_is_due(number, self.policy_every)
        ]
        self._remove([*(chunk.path for chunk in newer), *later, *self._unfinished()])
        try:
            self._metrics.cut_back(metrics_bytes)
        except OSError as error:
            raise atomic.disk_failure(self.path, error) from error

    def _unfinished(self) -> list[Path]:
        """What a process that was killed was about to write."""
        return [path for path in self.path.rglob(f"*{TEMPORARY}") if path.is_file()]

    def _remove(self, files: Sequence[Path]) -> None:
        """RunFailure where the disk refuses."""
        try:
            for path in files:
                path.unlink()
        except OSError as error:
            raise atomic.disk_failure(self.path, error) from error

    # ---- results

    def write_results(self, summary: Mapping[str, Any], problem: Problem, best: Mapping16 | None) -> None:
        """summary.json and, where a valid mapping is known, best_mapping.json and the file of its plan."""
        if best is not None:
            from egrl.core import mapping_file

            atomic.write(self.path / BEST, mapping_file.dumps(problem, best))
            if problem.about.plan_file and isinstance(problem, HasPlanText):
                atomic.write(self.path / problem.about.plan_file, problem.plan_text(best) + "\n")
        atomic.write(self.path / SUMMARY, json.dumps(summary, indent=1, allow_nan=False) + "\n")

    def write_policy(self, generation: int, policy: StoredPolicy, problem: Problem) -> None:
        """The deployable policy of a generation. RunFailure where the disk refuses."""
        from policies.store import save_policy

        path = self._subfolder(POLICIES) / f"generation-{generation:08d}.safetensors"
        metadata = {**policy.metadata, "generation": generation, "workload": problem.about.workload}
        try:
            save_policy(path, policy.weights, metadata)
        except OSError as error:
            raise atomic.disk_failure(path, error) from error


class MetricsFile:
    """metrics.csv of a run that is open: one row per generation, under a header that never changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._content = path.read_bytes() if path.is_file() else b""

    def counted(self) -> dict[str, Any]:
        """Its length and SHA-256, for a checkpoint."""
        return {
            "metrics_bytes": len(self._content),
            "metrics_sha256": hashlib.sha256(self._content).hexdigest(),
        }

    def rows(self) -> list[dict[str, str]]:
        """The rows so far, by names as they are written."""
        return list(csv.DictReader(io.StringIO(self._content.decode(), newline="")))

    def append(self, row: Mapping[str, Any]) -> None:
        """Add a row; the first one brings the header.

        Raises RunFailure where the disk refuses, ValueError where a row has other names than the header.
        """
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        if not self._content:
            writer.writerow(row.keys())
        else:
            names = next(csv.reader([self._content[: self._content.index(b"\n")].decode()]))
            if CONFIRMED[0] in names and CONFIRMED[0] not in row:  # a board began, whose caller goes on
                row = {**row, **dict.fromkeys(CONFIRMED, math.nan)}
            if list(row) != names:
                raise ValueError(f"metrics: expected {', '.join(names)}, received {', '.join(row)}")
        writer.writerow([_cell(value) for value in row.values()])
        line = buffer.getvalue().encode()
        try:
            with open(self._path, "ab", opener=no_link) as stream:
                stream.write(line)
        except OSError as error:
            raise atomic.disk_failure(self._path, error) from error
        self._content += line

    def sync(self) -> None:
        """Make it durable. RunFailure where the disk refuses."""
        if not self._content:
            return
        try:
            with open(self._path, "rb") as stream:
                os.fsync(stream.fileno())
        except OSError as error:
            raise atomic.disk_failure(self._path, error) from error

    def check(self, size: int, digest: str) -> None:
        """InputError where the first `size` bytes of the file have another SHA-256 than `digest`."""
        if hashlib.sha256(self._content[:size]).hexdigest() != digest:
            found = len(self._content)
            raise InputError(
                f"{self._path}: expected the {size} bytes that the checkpoint counts, found {found} or others"
            )

    def cut_back(self, size: int) -> None:
        """Go on from the first `size` bytes of the file. OSError where the disk refuses."""
        if self._path.exists():
            with open(self._path, "r+b", opener=no_link) as stream:
                stream.truncate(size)
        self._content = self._content[:size]


def _cell(value: Any) -> Any:
    return repr(float(value)) if isinstance(value, float | np.floating) else value


def check_links(folder: Path) -> None:
    """InputError if a run folder has a symbolic link: what a run writes there would come to lie elsewhere, too.

    The folder itself may be a symbolic link: its user named it.
    """
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(place, name)
            if path.is_symlink():
                raise InputError(
                    f"{folder}: expected a folder without links, found the link {str(path.relative_to(folder))!r}"
                )


def _is_unfinished_config(name: str) -> bool:
    """Whether a run died while it wrote this file, the first of all."""
    return name.startswith(f"{CONFIG}.") and name.endswith(TEMPORARY)


def check_settings(made: Mapping[str, Any], now: Mapping[str, Any], where: str) -> None:
    """InputError naming the first key of which a run was `made` with another value than it has `now`.

    Both are dotted key -> value; a key without a value is missing. `where` is the file that says what is so now.
    """
    for key in dict.fromkeys([*now, *made]):
        if made.get(key) != now.get(key):
            raise InputError(
                f"{where}: {key}: expected {_shown(made, key)}, with which the run was made, found {_shown(now, key)};"
                " start another run for another value"
            )


def _shown(settings: Mapping[str, Any], key: str) -> str:
    return repr(settings[key]) if key in settings else "none"
