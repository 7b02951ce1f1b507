"""The evaluations of a run on disk: chunks of mappings and their scalars, written once and never changed.

A chunk is an .npz file `FIRST-END-pPROBLEM.npz`: the evaluations FIRST <= ticket < END of one problem. It has `parts`
float32 [M, P], too, if one of them has a profile; all NaN if a row has none.
"""

from __future__ import annotations

import errno
import io
import re
import zipfile
import zlib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from egrl.core import atomic
from egrl.core.archive import SCALARS, Archive
from egrl.core.proposals import Proposals
from hwsim.problem import Evaluation, Profiles
from workloads.atomic import replace_file
from workloads.errors import InputError
from workloads.files import read_bytes

_NAME = re.compile(r"(\d{9,})-(\d{9,})-p(\d+)\.npz")
_KINDS = {
    "mapping": "i",
    "evaluation": "i",
    **{name: np.dtype(dtype).kind for name, dtype in SCALARS.items()},
}
PARTS = "parts"
_DIMENSIONS = {"mapping": 3, PARTS: 2}
TRIES = 5
_FIELDS = ("reward", "cost", "speedup", "epsilon", "status", "partial")


class Chunk(NamedTuple):
    """A file and the half-open range of evaluations of a problem that it holds."""

    path: Path
    first: int
    end: int
    problem: int


def listing(folder: Path) -> list[Chunk]:
    """The chunks in a folder, in order; other files are left alone."""
    names = sorted(folder.glob("*.npz")) if folder.is_dir() else []
    found = [
        Chunk(path, int(m[1]), int(m[2]), int(m[3])) for path in names if (m := _NAME.fullmatch(path.name))
    ]
    return sorted(found, key=lambda chunk: chunk.first)


def write(folder: Path, archive: Archive, first: int) -> list[tuple[Chunk, bytes]]:
    """Write the evaluations from ticket `first` on, a chunk a problem, and return these.

    RunFailure where the disk refuses.
    """
    end = len(archive)
    if end == first:
        return []
    written = []
    for problem in np.unique(archive.column("problem")[_in_window(archive, first, end)]).tolist():
        chunk = Chunk(folder / f"{first:09d}-{end:09d}-p{problem}.npz", first, end, problem)
        written.append((chunk, pack(chunk, archive)))
        put(chunk.path, written[-1][1])
    return written


def put(path: Path, content: bytes) -> None:
    """Write a chunk into its folder, which somebody may delete at any instant. RunFailure where the disk refuses."""
    for _ in range(TRIES):
        atomic.make_folder(path.parent)
        try:
            return replace_file(path, content)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise atomic.disk_failure(path, error) from error
    raise atomic.disk_failure(path, FileNotFoundError(errno.ENOENT, "its folder is deleted again and again"))


def pack(chunk: Chunk, archive: Archive) -> bytes:
    """The content of a chunk, as far as the archive still has its mappings."""
    rows = _in_window(archive, chunk.first, chunk.end)
    rows = rows[archive.column("problem")[rows] == chunk.problem]
    columns = {name: archive.column(name)[rows] for name in SCALARS if name != "source"}
    parts = archive.parts(rows)
    if not np.isnan(parts).all():
        columns[PARTS] = parts
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer, evaluation=rows, mapping=archive.mappings(rows), source=archive.sources(rows), **columns
    )
    return buffer.getvalue()


def _in_window(archive: Archive, first: int, end: int) -> NDArray[np.int64]:
    """The tickets first..end - 1 whose mappings an archive still has."""
    return np.arange(max(first, len(archive) - archive.window), end)


def read(paths: Sequence[Path]) -> dict[str, list[Any]]:
    """The columns of some chunks of one run, sorted by evaluation; `mapping` is a list of [N, H] arrays, and `parts`
    one of float32 [P] arrays, with None for rows of a chunk without profiles.

    Raises InputError where a chunk is damaged.
    """
    columns: dict[str, list[Any]] = {name: [] for name in (*_KINDS, PARTS)}
    for path in paths:
        data = read_bytes(path, "a chunk of mappings")
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as chunk:
                arrays = {name: chunk[name] for name in columns if name != PARTS or name in chunk}
        except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile, zlib.error) as error:
            raise InputError(f"{path}: damaged chunk of mappings: {error}") from error
        rows = arrays["evaluation"].shape
        for name, array in arrays.items():
            fits = array.ndim == _DIMENSIONS.get(name, 1) and array.shape[:1] == rows
            if not fits or array.dtype.kind != _KINDS.get(name, "f"):
                raise InputError(
                    f"{path}: damaged chunk of mappings: {name}: found {array.dtype} {array.shape}"
                )
            columns[name].extend(array)
        if PARTS not in arrays:
            columns[PARTS].extend([None] * rows[0])
    tickets = np.array(columns["evaluation"], dtype=np.int64)
    order = np.argsort(tickets, kind="stable")
    if len(twice := np.flatnonzero(np.diff(tickets[order]) == 0)):
        raise InputError(
            f"{paths[0].parent}: expected the chunks of mappings of one run, found two with evaluation"
            f" {tickets[order[twice[0]]]}"
        )
    return {name: [parts[i] for i in order] for name, parts in columns.items()}


def fill(archive: Archive, paths: Sequence[Path], evaluations: int, where: Path) -> None:
    """Put the evaluations before ticket `evaluations` into an empty archive; those too old leave blank rows.

    Raises InputError where one of the last `archive.window` is missing or a chunk is damaged.
    """
    columns = read(paths)
    tickets = np.array(columns["evaluation"], dtype=np.int64)
    first = int(tickets[0]) if len(tickets) else evaluations
    needed = max(0, evaluations - archive.window)
    if first > needed or not np.array_equal(tickets, np.arange(first, evaluations)):
        raise InputError(
            f"{where}: expected the evaluations {needed}..{evaluations - 1} without gaps, found {len(tickets)}"
        )
    archive.skip(first)
    if first == evaluations:
        return
    problem = np.array(columns["problem"], dtype=np.int16)
    starts = [0, *(np.flatnonzero(np.diff(problem)) + 1).tolist(), len(problem)]
    for start, end in pairwise(starts):
        run = {name: np.array(columns[name][start:end], dtype=SCALARS[name]) for name in SCALARS}
        try:
            mapping = np.array(columns["mapping"][start:end], dtype=np.int16)
            archive.append(
                Proposals(mapping, run["source"], int(problem[start]), tickets[start:end]),
                Evaluation(
                    **{name: run[name] for name in _FIELDS},
                    repaired=mapping,
                    parts=_known(profiles(columns[PARTS][start:end])),
                ),
            )
        except (ValueError, IndexError) as error:
            raise InputError(f"{where}: mappings of another problem: {error}") from error


def profiles(rows: Sequence[Profiles | None]) -> Profiles:
    """float32 [B, P] of rows [P], NaN where there is none; P is 0 where there is none at all.

    ValueError where they have different lengths.
    """
    parts = next((len(row) for row in rows if row is not None), 0)
    blank = np.full(parts, np.nan, np.float32)
    found = [blank if row is None else row for row in rows]
    return np.array(found, np.float32).reshape(len(rows), parts)


def _known(parts: Profiles) -> Profiles | None:
    return parts if parts.size else None
