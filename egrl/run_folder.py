"""The run folder: everything a run leaves, written so that a crash at any instant loses nothing.

metrics.csv and mappings/ only grow between checkpoints; a checkpoint records how far they counted, and
resuming cuts them back to that point. docs/architecture.md, "The run folder", lists the files.
"""

from __future__ import annotations

import csv
import io
import json
import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from filelock import FileLock, Timeout

from egrl import atomic, checkpoint, mapping_file
from egrl.archive import SCALARS, Archive
from egrl.types import Proposals
from hwsim.problem import Evaluation, Mapping16, Problem
from workloads.errors import InputError

if TYPE_CHECKING:
    from policies.store import StoredPolicy

CONFIG = "config.toml"
SUMMARY = "summary.json"
METRICS = "metrics.csv"
BEST = "best_mapping.json"
LOCK = ".lock"


def default_folder(workload: str, method: str, seed: int) -> Path:
    """runs/<workload>-<method>-s<seed>-<n>, the first n that is free."""
    stem = f"{Path(workload).stem}-{method}-s{seed}".replace(":", "-")
    n = 1
    while (path := Path("runs") / f"{stem}-{n}").exists():
        n += 1
    return path


class RunFolder:
    """One run's folder, locked while open. Make one by `create` or `reopen`."""

    def __init__(self, path: Path, lock: FileLock) -> None:
        self.path = path
        self._lock = lock
        self._flushed = 0
        self._events: Any = None

    # ---- opening and closing

    @classmethod
    def create(cls, path: Path) -> RunFolder:
        """A new folder. InputError where it is not empty, not writable or in use."""
        try:
            path.mkdir(parents=True, exist_ok=True)
            leftovers = [p for p in path.iterdir() if p.name not in (LOCK, CONFIG + atomic.TEMPORARY)]
        except OSError as error:
            raise InputError(
                f"--out {path}: expected a folder that can be written: {error.strerror}"
            ) from error
        if leftovers:
            raise InputError(
                f"--out {path}: expected a new or empty folder, found {len(leftovers)} entries"
                f" ({leftovers[0].name} …); to go on with a run use --resume {path}"
            )
        return cls._locked(path)

    @classmethod
    def reopen(cls, path: Path) -> RunFolder:
        """The folder of an earlier run. InputError where there is none, or another process uses it."""
        if not (path / CONFIG).is_file():
            raise InputError(f"--resume {path}: expected a run folder with {CONFIG}, found none")
        return cls._locked(path)

    @classmethod
    def _locked(cls, path: Path) -> RunFolder:
        lock = FileLock(path / LOCK)
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            raise InputError(f"{path}: the run folder is in use by another process") from error
        except OSError as error:
            raise InputError(f"{path}: expected a folder that can be written: {error.strerror}") from error
        return cls(path, lock)

    def close(self) -> None:
        """Release the lock; the folder stays as the last checkpoint left it."""
        if self._events is not None:
            self._events.close()
        self._lock.release()

    # ---- inputs

    def write_inputs(self, config: str, problems: Sequence[Problem], copies: Mapping[str, str]) -> None:
        """config.toml first (it makes a run folder), then copies of the user's files (name -> file), the problems' own.

        A run that dies before its first checkpoint begins anew from config.toml, so that the rest may be missing.
        """
        atomic.write(self.path / CONFIG, config)
        for name, source in copies.items():
            atomic.write(self.path / name, Path(source).read_bytes())
        for number, problem in enumerate(problems):
            folder = self.path if len(problems) == 1 else self.path / "inputs" / str(number)
            folder.mkdir(parents=True, exist_ok=True)
            for name, text in problem.files().items():
                atomic.write(folder / name, text)

    @property
    def begun(self) -> bool:
        """Whether the run has reached its first checkpoint, so that its inputs are complete."""
        return bool(checkpoint.listing(self.path / "checkpoint"))

    # ---- growing files

    def append_metrics(self, row: Mapping[str, Any]) -> None:
        """One generation; the header is written with the first row."""
        path = self.path / METRICS
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        if not path.exists() or path.stat().st_size == 0:
            writer.writerow(row.keys())
        writer.writerow([_cell(value) for value in row.values()])
        try:
            with open(path, "ab") as stream:
                stream.write(buffer.getvalue().encode())
        except OSError as error:
            raise atomic.disk_failure(path, error) from error
        self._append_events(row)

    def _append_events(self, row: Mapping[str, Any]) -> None:
        if self._events is None:
            from tensorboardX import SummaryWriter

            self._events = SummaryWriter(str(self.path), purge_step=int(row["generation"]), flush_secs=30)
        for name, value in row.items():
            if isinstance(value, int | float) and name != "generation" and np.isfinite(value):
                self._events.add_scalar(name, value, int(row["generation"]))

    def _flush_mappings(self, archive: Archive) -> None:
        """The evaluations since the last flush, a chunk a problem; chunks older than the window are dropped."""
        first, end = self._flushed, len(archive)
        if end == first:
            return
        folder = self.path / "mappings"
        folder.mkdir(exist_ok=True)
        tickets = np.arange(first, end)
        for problem in np.unique(archive.column("problem")[first:end]).tolist():
            rows = tickets[archive.column("problem")[first:end] == problem]
            rows = rows[-archive.window :]
            columns = {name: archive.column(name)[rows] for name in SCALARS}
            buffer = io.BytesIO()
            np.savez_compressed(buffer, evaluation=rows, mapping=archive.mappings(rows), **columns)
            atomic.write(folder / f"{first:09d}-{end:09d}-p{problem}.npz", buffer.getvalue())
        self._flushed = end
        for path, _, old in chunk_files(folder):
            if old <= end - archive.window:
                path.unlink()

    # ---- checkpoints

    def save(
        self,
        generation: int,
        method_state: dict[str, Any] | None,
        loop_state: dict[str, Any],
        archive: Archive,
    ) -> None:
        """Make everything so far durable: mappings, metrics, then the checkpoint that counts them."""
        folder = self.path / "checkpoint"
        try:
            folder.mkdir(exist_ok=True)
            self._flush_mappings(archive)
            metrics = self.path / METRICS
            size = 0
            if metrics.exists():
                with open(metrics, "rb") as stream:
                    os.fsync(stream.fileno())
                size = metrics.stat().st_size
        except OSError as error:
            raise atomic.disk_failure(folder, error) from error
        tree = {
            "loop": loop_state,
            "method": method_state,
            "evaluations": len(archive),
            "metrics_bytes": size,
        }
        checkpoint.save(folder, generation, tree)

    def restore(self, archive: Archive) -> dict[str, Any] | None:
        """The newest checkpoint, or None where none was reached; the folder is cut back to it, the archive filled.

        Raises InputError where the checkpoint or a chunk of mappings is damaged; nothing is changed then.
        """
        tree = checkpoint.newest(self.path / "checkpoint")
        evaluations = 0 if tree is None else int(tree["evaluations"])
        generation = 0 if tree is None else int(tree["loop"]["generation"])
        folder = self.path / "mappings"
        kept = [entry for entry in chunk_files(folder) if entry[2] <= evaluations]
        _fill(archive, [path for path, _, _ in kept], evaluations)
        for path, _, _ in set(chunk_files(folder)) - set(kept):
            path.unlink()
        for path in self.path.rglob(f"*{atomic.TEMPORARY}"):
            path.unlink()
        for path in (self.path / "policies").glob("generation-*.safetensors"):
            if int(path.stem.removeprefix("generation-")) > generation:
                path.unlink()
        metrics = self.path / METRICS
        if metrics.exists():
            os.truncate(metrics, 0 if tree is None else int(tree["metrics_bytes"]))
        self._flushed = evaluations
        return tree

    # ---- results

    def write_results(self, summary: Mapping[str, Any], problem: Problem, best: Mapping16 | None) -> None:
        """summary.json and, where a valid mapping is known, best_mapping.json."""
        if best is not None:
            atomic.write(self.path / BEST, mapping_file.dumps(problem, best))
        atomic.write(self.path / SUMMARY, json.dumps(summary, indent=1) + "\n")

    def write_policy(self, generation: int, policy: StoredPolicy, problem: Problem) -> None:
        """The deployable policy of a generation."""
        from policies.store import save_policy

        folder = self.path / "policies"
        folder.mkdir(exist_ok=True)
        path = folder / f"generation-{generation:08d}.safetensors"
        save_policy(
            path, policy.weights, {**policy.metadata, "generation": generation, "workload": problem.workload}
        )


def _cell(value: Any) -> Any:
    return repr(float(value)) if isinstance(value, float | np.floating) else value


def chunk_files(folder: Path) -> list[tuple[Path, int, int]]:
    """(file, first evaluation, end evaluation) of the chunks in mappings/, half-open, in order."""
    found = []
    for path in folder.glob("*.npz"):
        first, end = path.name.split("-")[:2]
        found.append((path, int(first), int(end)))
    return sorted(found, key=lambda entry: (entry[1], entry[0].name))


def read_chunks(paths: Sequence[Path]) -> dict[str, Any]:
    """The columns of some chunks of one run, sorted by evaluation; mapping is a list of [N, H] arrays.

    Raises InputError where a chunk is damaged.
    """
    columns: dict[str, list[Any]] = {name: [] for name in ("evaluation", "mapping", *SCALARS)}
    for path in paths:
        try:
            with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as chunk:
                for name, parts in columns.items():
                    parts.extend(chunk[name])
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise InputError(f"{path}: damaged chunk of mappings: {error}") from error
    order = np.argsort(np.array(columns["evaluation"], dtype=np.int64), kind="stable")
    return {name: [parts[i] for i in order] for name, parts in columns.items()}


def _fill(archive: Archive, paths: Sequence[Path], evaluations: int) -> None:
    """Put the evaluations of a checkpoint back into an empty archive; dropped old ones leave blank rows."""
    columns = read_chunks(paths)
    tickets = np.array(columns["evaluation"], dtype=np.int64)
    first = int(tickets[0]) if len(tickets) else evaluations
    if not np.array_equal(tickets, np.arange(first, evaluations)) or (
        first > 0 and evaluations <= archive.window
    ):
        raise InputError(
            f"{paths[0].parent if paths else 'mappings'}: expected evaluations up to {evaluations - 1} without gaps,"
            f" found {len(tickets)}"
        )
    archive.skip(first)
    if first == evaluations:
        return
    problem = np.array(columns["problem"], dtype=np.int16)
    starts = [0, *(np.flatnonzero(np.diff(problem)) + 1).tolist(), len(problem)]
    for start, end in pairwise(starts):
        run = {name: np.array(columns[name][start:end], dtype=SCALARS[name]) for name in SCALARS}
        mapping = np.array(columns["mapping"][start:end], dtype=np.int16)
        fields = ("reward", "cost", "speedup", "epsilon", "status", "partial")
        archive.append(
            Proposals(mapping, run["source"], int(problem[start]), tickets[start:end]),
            Evaluation(**{name: run[name] for name in fields}, repaired=mapping),
        )
