"""Files of results: many searches, written as each ends, taken up again, and read back with their costs judged."""

from __future__ import annotations

import gzip
import json
import multiprocessing
import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from egrl_suite.library import SPLITS, Instance, SuiteError, find, instances, version
from egrl_suite.methods import method_named, run
from egrl_suite.scores import judged
from egrl_suite.tasks import TRACKS, Track, track_named

Say = Callable[[str], None]
MOST_BYTES = 1 << 28
HEAD = ("track", "split", "quick", "most", "rows")
SEARCH, OF = ("method", "instance", "seed", "budget"), ("method", "seed", "budget")
"""What tells the searches of a file apart, and those of one instance."""


def read(path: Path) -> dict[str, Any]:
    """A file of results (.json, .json.gz). Raises SuiteError if no run writes it so, or of another version."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            document = json.loads(stream.read(MOST_BYTES))
    except (OSError, EOFError, ValueError, RecursionError, zlib.error) as error:
        raise SuiteError(f"{path}: expected a file of results, found {_said(error)}") from None
    if not isinstance(document, dict) or document.get("kind") != "suite-results":
        raise SuiteError(f"{path}: expected a file of results, found another document")
    if document.get("suite") != version():
        raise SuiteError(
            f"{path}: expected results of the suite {version()}, found those of {document.get('suite')}"
        )
    _check_head(path, document)
    known: set[tuple[Any, ...]] = set()
    for at, row in enumerate(document["rows"]):
        _check_row(f"{path}: row {at}", row, document)
        search = tuple(row[key] for key in SEARCH)
        if search in known:
            name = "{} {} seed {}".format(*search)
            raise SuiteError(f"{path}: expected each search once, found {name} twice")
        known.add(search)
    return document


def _said(error: Exception) -> str:
    """Of a file that is no JSON, where that is seen; else what the system says, without the path."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    if isinstance(error, json.JSONDecodeError):
        return f"no JSON at line {error.lineno}, column {error.colno}"
    return str(error)


def _check_head(path: Path, document: dict[str, Any]) -> None:
    """SuiteError where a file says of itself what no run does."""
    track, split, quick, most, rows = (document.get(key) for key in HEAD)
    marks: tuple[int, ...] = TRACKS[track].marks if isinstance(track, str) and track in TRACKS else ()
    for good, key, expected, found in (
        (bool(marks), "track", f"one of {', '.join(TRACKS)}", track),
        (split in SPLITS, "split", "train, validation or test", split),
        (isinstance(quick, bool), "quick", "true or false", quick),
        (most in marks, "most", "a mark of the track", most),
        (isinstance(rows, list), "rows", "a list of searches", rows),
    ):
        if not good:
            raise SuiteError(f"{path}: {key}: expected {expected}, found {found!r:.60}")


def _check_row(where: str, row: Any, document: dict[str, Any]) -> None:
    """SuiteError where a search is not as a run writes it: what a table counts twice, or cannot read."""
    if not isinstance(row, dict):
        raise SuiteError(f"{where}: expected a table, found {row!r:.60}")
    keys = (*SEARCH, "answers", "failed")
    if lacking := [key for key in keys if key not in row]:
        raise SuiteError(f"{where}: expected {', '.join(keys)}, found no {lacking[0]}")
    method, instance, seed, budget, answers, failed = (row[key] for key in keys)
    names, sizes = (
        [one.name for one in wanted(document)],
        budgets(TRACKS[document["track"]], document["most"]),
    )
    named = isinstance(method, str) and method.isprintable() and not set(method) & set("`|")
    texts = isinstance(answers, dict) and all(isinstance(text, str) for text in answers.values())
    for good, key, expected in (
        (named, "method", "a name"),
        (instance in names, "instance", f"one of the {document['split']} split"),
        (type(seed) is int and seed >= 0, "seed", "a number from 0 on"),
        (type(budget) is int and budget in sizes, "budget", " or ".join(map(str, sizes))),
        (texts, "answers", "placements as text by mark"),
        (isinstance(failed, str), "failed", "text"),
    ):
        if not good:
            raise SuiteError(f"{where}: {key}: expected {expected}, found {row[key]!r:.60}")


def write(path: Path, document: dict[str, Any]) -> None:
    """Write a file of results at once, or not at all."""
    data = (json.dumps(document, indent=None, separators=(",", ":")) + "\n").encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_bytes(gzip.compress(data, 9, mtime=0) if path.suffix == ".gz" else data)
    os.replace(part, path)


def budgets(track: Track, most: int | None) -> tuple[int, ...]:
    """Measurements of each search: one for all marks, or one a mark."""
    marks = tuple(mark for mark in track.marks if most is None or mark <= most)
    if not marks:
        raise SuiteError(f"--most: expected at least {track.marks[0]}, found {most}")
    return marks if track.apart else marks[-1:]


def wanted(document: dict[str, Any]) -> list[Instance]:
    """The instances that a file of results has to have."""
    return instances(document["split"], track_named(document["track"]).kinds, document["quick"])


def run_all(
    path: Path,
    track: str,
    split: str,
    names: Sequence[str],
    seeds: int,
    quick: bool,
    most: int | None,
    workers: int,
    say: Say,
) -> dict[str, Any]:
    """Run what the file lacks, written after every search. Raises SuiteError for unknown names or another file."""
    for name in names:
        method_named(name)
    sizes = budgets(track_named(track), most)
    head = {
        "kind": "suite-results",
        "suite": version(),
        "track": track,
        "split": split,
        "quick": quick,
        "most": sizes[-1],
    }
    document: dict[str, Any] = read(path) if path.exists() else {**head, "rows": []}
    for key, value in head.items():
        if document[key] != value:
            raise SuiteError(
                f"{path}: expected results of {key} {value}, found {document[key]}; name another file"
            )
    write(path, document)
    done = {tuple(row[key] for key in SEARCH) for row in document["rows"]}
    cases = [
        (name, one.name, seed, size)
        for name in names
        for size in sizes
        for seed in range(seeds)
        for one in wanted(document)
        if (name, one.name, seed, size) not in done
    ]
    for row in _rows(track, cases, workers):
        document["rows"].append(row)
        write(path, document)
        say(f"{row['method']} {row['instance']} seed {row['seed']}: {row['failed'] or 'done'}")
    return document


def _rows(track: str, cases: list[tuple[str, str, int, int]], workers: int) -> Iterator[dict[str, Any]]:
    given = [(track, *case) for case in cases]
    if workers <= 1 or len(given) < 2:
        yield from map(_row, given)
        return
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(_row, given)


def _row(given: tuple[str, str, str, int, int]) -> dict[str, Any]:
    track, name, instance, seed, size = given
    return {**run(find(instance), track_named(track), size, name, seed), "budget": size}


def unfinished(document: dict[str, Any]) -> list[tuple[str, int, int]]:
    """Methods of a file with searches that it lacks: how many, of how many."""
    instances, have = len(wanted(document)), Counter(row["method"] for row in document["rows"])
    begun = Counter(method for method, _, _ in {tuple(row[key] for key in OF) for row in document["rows"]})
    return [
        (m, begun[m] * instances - have[m], begun[m] * instances)
        for m in have
        if have[m] < begun[m] * instances
    ]


def complete(document: dict[str, Any], judge: bool = True) -> list[dict[str, Any]]:
    """The rows of a file with the costs of their placements, by the judge, or as a fast check without.

    A search that the file lacks counts as one that failed: nothing is left out.
    """
    track, found = track_named(document["track"]), []
    have: dict[tuple[str, int, int], dict[str, dict[str, Any]]] = {}
    for row in document["rows"]:
        have.setdefault((row["method"], row["seed"], row["budget"]), {})[row["instance"]] = row
    for (method, seed, size), rows in have.items():
        marks = [str(mark) for mark in ((size,) if track.apart else track.marks) if mark <= size]
        for one in wanted(document):
            lacking = {
                "method": method,
                "instance": one.name,
                "seed": seed,
                "answers": {},
                "failed": "not run",
                "cpu_s": 0.0,
            }
            row = rows.get(one.name, lacking)
            found.append({**row, "judged": {mark: judged(row, mark) for mark in marks}})
    return found
