"""The run folder: everything a run leaves, written so that a crash at any instant loses nothing.

metrics.csv and mappings/ only grow between checkpoints; a checkpoint records how far they counted, and
resuming cuts them back to that point. docs/reference/run-folder.md lists the files.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from egrl.core import atomic, mapping_file
from egrl.core.archive import Archive
from egrl.core.failure import RunFailure
from egrl.core.recorder import POLICY_EVERY, policy_is_due
from egrl.runs import checkpoint, chunks, inputs
from egrl.runs.chunks import Chunk
from egrl.runs.events import EventFile
from egrl.runs.kept_chunks import KeptChunks
from egrl.runs.lock import LOCK, FolderLock, taken_over
from egrl.runs.metrics_file import MetricsFile
from hwsim.capabilities import HasPlanText
from hwsim.problem import Mapping16, Problem
from workloads.atomic import TEMPORARY
from workloads.errors import InputError, Notice

if TYPE_CHECKING:
    from policies.store import StoredPolicy

CONFIG = inputs.CONFIG
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
KEPT_STARTS = ("cold", "compiler", "rules")
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
        defaults: dotted key -> the default of each of these settings.
    """

    def __init__(self, path: Path) -> None:
        """InputError where another process uses the folder, it has links, or it cannot be written."""
        check_links(path)
        self.path = path
        self.policy_every = POLICY_EVERY
        self.settings: Mapping[str, Any] = {}
        self.defaults: Mapping[str, Any] = {}
        self._lock = FolderLock(path)
        self._metrics, self._chunks = MetricsFile(path / METRICS), KeptChunks(path / MAPPINGS)
        self._inputs: inputs.Inputs | None = None
        self._saved: tuple[Path, int] | None = None  # the last checkpoint and its inode
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

    def _hold(self) -> None:
        """See that the folder is still this process's. RunFailure where another one has gone on with the run."""
        if not self._lock.hold():
            return
        if self._newest() != self._saved:
            raise RunFailure(taken_over(self.path))
        warnings.warn(
            Notice(f"{self.path}: {LOCK} was removed while the run goes on; locked again"), stacklevel=3
        )

    def _newest(self) -> tuple[Path, int] | None:
        """The newest checkpoint and its inode."""
        found = [(path, path.stat().st_ino) for _, path in checkpoint.listing(self.path / CHECKPOINT)[-1:]]
        return found[0] if found else None

    # ---- inputs

    def write_inputs(self, config: str, problems: Sequence[Problem], copies: Mapping[str, bytes]) -> None:
        """config.toml first (it makes a run folder), then copies of the user's files (by name), the problems' own.

        A run that dies before its first checkpoint begins anew from config.toml, so that the rest may be missing.
        """
        self._inputs = inputs.Inputs(self.path, config, problems, copies)
        self._inputs.write()

    def keep_inputs(self, config: str, problems: Sequence[Problem], copies: Mapping[str, bytes]) -> None:
        """As `write_inputs`, of a run that goes on: only config.toml is written, if it says anything else."""
        self._inputs = inputs.Inputs(self.path, config, problems, copies)
        self.write_config(config)
        self._inputs.look()

    def write_config(self, config: str) -> None:
        """Write config.toml if it says anything else. RunFailure if the disk refuses."""
        if self._inputs is not None:
            self._inputs.config = config
        path = self.path / CONFIG
        if not path.is_file() or path.read_bytes() != config.encode():
            atomic.write(path, config)

    @property
    def begun(self) -> bool:
        """Whether the run has got beyond its inputs, so that these are complete."""
        left = (self.path / SUMMARY, self.path / METRICS, self.path / MAPPINGS)
        return bool(checkpoint.listing(self.path / CHECKPOINT)) or any(path.exists() for path in left)

    # ---- growing files

    def generation(self, row: Mapping[str, Any]) -> None:
        """One generation; see `MetricsFile.append`."""
        self._hold()
        self._metrics.append(row)
        step = int(row["generation"])
        if self._events is None:
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
        self._hold()
        folder = self.path / CHECKPOINT
        atomic.make_folder(folder)
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
        self._saved = self._newest()
        self._counted[generation] = len(archive)
        self._drop_old_chunks(archive)
        self._mend_inputs()

    def _mend_inputs(self) -> None:
        if self._inputs is not None:
            self._inputs.restore_deleted()

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
        check_settings(tree["settings"], self.settings, str(self.path / CONFIG), self.defaults)
        found = tree["loop"]["fingerprints"]
        if found != list(fingerprints):
            raise InputError(
                f"{self.path}: this run was made by another simulator, chip or workload: expected fingerprint "
                f"{fingerprints[0][:12]}, found {found[0][:12]}"
            )
        metrics = self._metrics.check(int(tree["metrics_bytes"]), tree["metrics_sha256"])
        evaluations, generation = int(tree["evaluations"]), int(tree["loop"]["generation"])
        kept, newer = self._chunks.check(tree["chunks"], evaluations, archive.window)
        chunks.fill(archive, [chunk.path for chunk in kept], evaluations, self.path / MAPPINGS)
        load(tree)
        self._cut_back(metrics, newer, generation)
        self._chunks.go_on(kept, tree["chunks"], evaluations)
        self._counted, self._saved = {generation: evaluations}, self._newest()
        return tree

    def _cut_back(self, metrics: bytes, newer: Sequence[Chunk], generation: int) -> None:
        """Drop what is newer than a checkpoint. RunFailure where the disk refuses."""
        policies = (self.path / POLICIES).glob("generation-*.safetensors")
        numbers = {path: path.stem.removeprefix("generation-") for path in policies}
        later = [
            path
            for path, number in numbers.items()
            if number.isdecimal()
            and (int(number) > generation or not policy_is_due(int(number), self.policy_every))
        ]
        self._remove([*(chunk.path for chunk in newer), *later, *self._unfinished()])
        try:
            self._metrics.cut_back(metrics)
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
        self._hold()
        if best is not None:
            atomic.write(self.path / BEST, mapping_file.dumps(problem, best))
            if problem.about.plan_file and isinstance(problem, HasPlanText):
                atomic.write(self.path / problem.about.plan_file, problem.plan_text(best) + "\n")
        atomic.write(self.path / SUMMARY, json.dumps(summary, indent=1, allow_nan=False) + "\n")
        self._mend_inputs()

    def write_policy(self, generation: int, policy: StoredPolicy, problem: Problem) -> None:
        """The deployable policy of a generation. RunFailure where the disk refuses."""
        from policies.store import save_policy

        self._hold()
        folder = self.path / POLICIES
        atomic.make_folder(folder)
        path = folder / f"generation-{generation:08d}.safetensors"
        metadata = {**policy.metadata, "generation": generation, "workload": problem.about.workload}
        try:
            save_policy(path, policy.weights, metadata)
        except OSError as error:
            raise atomic.disk_failure(path, error) from error


def check_links(folder: Path) -> None:
    """InputError if a run folder has a symbolic or hard link: what a run writes there would come to lie elsewhere, too.

    The folder itself may be a symbolic link: its user named it.
    """
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(place, name)
            if path.is_symlink():
                raise InputError(
                    f"{folder}: expected a folder without links, found the link {str(path.relative_to(folder))!r}"
                )
            if name in files and _names(path) > 1:
                raise InputError(
                    f"{folder}: expected a run folder of its own, found {str(path.relative_to(folder))!r}, a file that"
                    " has another name elsewhere (a hard link); go on with a copy of the folder (cp -r)"
                )


def _names(path: Path) -> int:
    """How many names a file has; 0 where somebody has deleted it meanwhile."""
    try:
        return path.stat().st_nlink
    except OSError:
        return 0


def _is_unfinished_config(name: str) -> bool:
    """Whether a run died while it wrote this file, the first of all."""
    return name.startswith(f"{CONFIG}.") and name.endswith(TEMPORARY)


def check_settings(
    made: Mapping[str, Any], now: Mapping[str, Any], where: str, defaults: Mapping[str, Any]
) -> None:
    """InputError naming the first key of which a run was `made` with another value than it has `now`.

    All are dotted key -> value; a key without a value is missing. A setting that the run did not have yet was at its
    default. `where` is the file that says what is so now.
    """
    for key in dict.fromkeys([*now, *made]):
        if made.get(key, defaults.get(key)) != now.get(key):
            raise InputError(
                f"{where}: {key}: expected {_shown(made, key)}, with which the run was made, found {_shown(now, key)};"
                " start another run for another value"
            )


def _shown(settings: Mapping[str, Any], key: str) -> str:
    return repr(settings[key]) if key in settings else "none"
