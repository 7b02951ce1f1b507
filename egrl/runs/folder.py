"""The run folder: everything a run leaves, written so that a crash at any instant loses nothing.

metrics.csv and mappings/ only grow between checkpoints; a checkpoint records how far they counted, and
resuming cuts them back to that point. docs/run-folder.md lists the files.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from egrl.core import atomic
from egrl.core.archive import Archive
from egrl.core.recorder import POLICY_EVERY, policy_is_due
from egrl.runs import checkpoint, chunks, mapping_file, metrics_file
from egrl.runs.events import EventFile
from egrl.runs.new_folder import unwritable
from egrl.runs.same_settings import check_settings
from hwsim.capabilities import HasFiles
from hwsim.problem import Mapping16, Problem
from workloads.atomic import TEMPORARY
from workloads.errors import InputError
from workloads.files import read_bytes

if TYPE_CHECKING:
    from policies.store import StoredPolicy

CONFIG = "config.toml"
SUMMARY = "summary.json"
METRICS = "metrics.csv"
BEST = "best_mapping.json"
LOCK = ".lock"
POLICIES = "policies"
PRETRAINING = "pretraining.json"
START_FILE = "start_mapping.json"
BASELINE_LAYOUT = "baseline_layout.json"
INIT_FILE = "init_policy.safetensors"
KEPT_STARTS = ("cold", "compiler")
"""Starts that follow from the problem; others are copied into the run folder."""


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

    def __init__(self, path: Path, lock: FileLock) -> None:
        self.path = path
        self.policy_every = POLICY_EVERY
        self.settings: Mapping[str, Any] = {}
        self._lock = lock
        self._flushed = 0
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
            raise unwritable(f"--out {path}", path, error) from error
        except ValueError as error:
            raise InputError(f"--out {str(path)!r}: expected a path: {error}") from error
        if leftovers:
            raise InputError(
                f"--out {path}: expected a new or empty folder, found {len(leftovers)} entries"
                f" ({leftovers[0].name} …); to go on with a run use --resume {path}"
            )
        return cls._locked(path)

    @classmethod
    def reopen(cls, path: Path) -> RunFolder:
        """The folder of an earlier run. InputError where there is none, or another process uses it."""
        if "\0" in str(path) or not (path / CONFIG).is_file():
            raise InputError(f"--resume {str(path)!r}: expected a run folder with {CONFIG}, found none")
        return cls._locked(path)

    @classmethod
    def _locked(cls, path: Path) -> RunFolder:
        lock = FileLock(path / LOCK)
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            raise InputError(f"{path}: the run folder is in use by another process") from error
        except OSError as error:
            raise unwritable(str(path), path, error) from error
        return cls(path, lock)

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
        atomic.write(self.path / CONFIG, config)
        for name, content in copies.items():
            atomic.write(self.path / name, content)
        for number, problem in enumerate(problems):
            folder = self.path if len(problems) == 1 else self.path / "inputs" / str(number)
            atomic.make_folder(folder)
            files = problem.files() if isinstance(problem, HasFiles) else {}
            for name, file in files.items():
                atomic.write(folder / name, file)

    @property
    def begun(self) -> bool:
        """Whether the run has got beyond its inputs, so that these are complete."""
        left = (self.path / SUMMARY, self.path / METRICS, self.path / "mappings")
        return bool(checkpoint.listing(self.path / "checkpoint")) or any(path.exists() for path in left)

    # ---- growing files

    def append_metrics(self, row: Mapping[str, Any]) -> None:
        """One generation; see `metrics_file.append`."""
        metrics_file.append(self.path / METRICS, row)
        step = int(row["generation"])
        if self._events is None:
            self._events = EventFile(self.path, step)
        scalars = {k: v for k, v in row.items() if isinstance(v, int | float) and k != "generation"}
        self._events.append(step, scalars)

    # ---- checkpoints

    def save(
        self,
        generation: int,
        method_state: dict[str, Any] | None,
        loop_state: dict[str, Any],
        archive: Archive,
    ) -> None:
        """Make everything so far durable: mappings, metrics, then the checkpoint that counts them."""
        folder, metrics = self.path / "checkpoint", self.path / METRICS
        atomic.make_folder(folder)
        chunks.write(self.path / "mappings", archive, self._flushed)
        self._flushed = len(archive)
        content = b""
        try:
            if metrics.exists():
                with open(metrics, "rb") as stream:
                    content = stream.read()
                    os.fsync(stream.fileno())
        except OSError as error:
            raise atomic.disk_failure(metrics, error) from error
        tree = {
            "loop": loop_state,
            "method": method_state,
            "settings": dict(self.settings),
            "evaluations": len(archive),
            "metrics_bytes": len(content),
            "metrics_sha256": hashlib.sha256(content).hexdigest(),
        }
        checkpoint.save(folder, generation, tree)
        self._counted[generation] = len(archive)
        self._drop_old_chunks(archive)

    def _drop_old_chunks(self, archive: Archive) -> None:
        """Delete what no kept checkpoint needs (after the new one is safe: until then the old ones need it)."""
        self._counted = dict(sorted(self._counted.items())[-checkpoint.KEPT :])
        if len(self._counted) < checkpoint.KEPT:
            return
        for chunk in chunks.listing(self.path / "mappings"):
            if chunk.end <= min(self._counted.values()) - archive.window:
                chunk.path.unlink(missing_ok=True)

    def restore(self, archive: Archive, fingerprints: Sequence[str]) -> dict[str, Any] | None:
        """The newest checkpoint, or None where none was reached; the folder is cut back to it, the archive filled.

        Everything is checked before anything is changed.

        Raises:
            InputError: the checkpoint, metrics.csv or a chunk of mappings is damaged or missing, or the run was
                made with other `settings` or problems of other `fingerprints`.
        """
        tree = checkpoint.newest(self.path / "checkpoint")
        if tree is None:
            if self.begun:
                raise InputError(f"{self.path / 'checkpoint'}: expected a checkpoint of the run, found none")
            return None
        check_settings(tree["settings"], self.settings, str(self.path / CONFIG))
        found = tree["loop"]["fingerprints"]
        if found != list(fingerprints):
            raise InputError(
                f"{self.path}: this run was made by another simulator, chip or workload: expected fingerprint "
                f"{fingerprints[0][:12]}, found {found[0][:12]}"
            )
        self._check_metrics(int(tree["metrics_bytes"]), tree["metrics_sha256"])
        evaluations, folder = int(tree["evaluations"]), self.path / "mappings"
        found_chunks = chunks.listing(folder)
        kept = [chunk for chunk in found_chunks if chunk.end <= evaluations]
        chunks.fill(archive, [chunk.path for chunk in kept], evaluations, folder)
        newer = [chunk.path for chunk in found_chunks if chunk.end > evaluations]
        self._cut_back(int(tree["metrics_bytes"]), newer, int(tree["loop"]["generation"]))
        self._flushed, self._counted = evaluations, {int(tree["loop"]["generation"]): evaluations}
        return tree

    def _check_metrics(self, size: int, digest: str) -> None:
        path = self.path / METRICS
        content = read_bytes(path, "the metrics of the run") if size or path.exists() else b""
        if hashlib.sha256(content[:size]).hexdigest() != digest:
            raise InputError(
                f"{path}: expected the {size} bytes that the checkpoint counts, found {len(content)} or others"
            )

    def _cut_back(self, metrics_bytes: int, newer: Sequence[Path], generation: int) -> None:
        """Drop what is newer than a checkpoint. RunFailure where the disk refuses."""
        policies = (self.path / POLICIES).glob("generation-*.safetensors")
        numbers = {path: path.stem.removeprefix("generation-") for path in policies}
        later = [
            path
            for path, number in numbers.items()
            if number.isdecimal()
            and (int(number) > generation or not policy_is_due(int(number), self.policy_every))
        ]
        unfinished = [path for path in self.path.rglob(f"*{TEMPORARY}") if path.is_file()]
        try:
            for path in (*newer, *later, *unfinished):
                path.unlink()
            if (self.path / METRICS).exists():
                os.truncate(self.path / METRICS, metrics_bytes)
        except OSError as error:
            raise atomic.disk_failure(self.path, error) from error

    # ---- results

    def write_results(self, summary: Mapping[str, Any], problem: Problem, best: Mapping16 | None) -> None:
        """summary.json and, where a valid mapping is known, best_mapping.json."""
        if best is not None:
            atomic.write(self.path / BEST, mapping_file.dumps(problem, best))
        atomic.write(self.path / SUMMARY, json.dumps(summary, indent=1, allow_nan=False) + "\n")

    def write_policy(self, generation: int, policy: StoredPolicy, problem: Problem) -> None:
        """The deployable policy of a generation. RunFailure where the disk refuses."""
        from policies.store import save_policy

        folder = self.path / POLICIES
        atomic.make_folder(folder)
        path = folder / f"generation-{generation:08d}.safetensors"
        metadata = {**policy.metadata, "generation": generation, "workload": problem.about.workload}
        try:
            save_policy(path, policy.weights, metadata)
        except OSError as error:
            raise atomic.disk_failure(path, error) from error


def _is_unfinished_config(name: str) -> bool:
    """Whether a run died while it wrote this file, the first of all."""
    return name.startswith(f"{CONFIG}.") and name.endswith(TEMPORARY)
