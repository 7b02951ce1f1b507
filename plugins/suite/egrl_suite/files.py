"""Files of results: many searches, written as each ends, taken up again, and read back with their costs judged."""

from __future__ import annotations

import gzip
import json
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from egrl_suite.library import Instance, SuiteError, find, instances, version
from egrl_suite.methods import method_named, run
from egrl_suite.scores import judged
from egrl_suite.tasks import Track, track_named

Say = Callable[[str], None]


def read(path: Path) -> dict[str, Any]:
    """A file of results (.json, .json.gz). Raises SuiteError if it is none, or of another version of the suite."""
    try:
        data = path.read_bytes()
        document = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    except (OSError, ValueError) as error:
        raise SuiteError(f"{path}: expected a file of results, found {error}") from None
    if not isinstance(document, dict) or document.get("kind") != "suite-results":
        raise SuiteError(f"{path}: expected a file of results, found another document")
    if document["suite"] != version():
        raise SuiteError(
            f"{path}: expected results of the suite {version()}, found those of {document['suite']}"
        )
    return document


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
    done = {(row["method"], row["instance"], row["seed"], row["budget"]) for row in document["rows"]}
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
    write(path, document)
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


def complete(document: dict[str, Any], judge: bool = True) -> list[dict[str, Any]]:
    """The rows of a file with the costs of their placements, by the judge, or as a fast check without.

    A search that the file lacks counts as one that failed: nothing is left out.
    """
    track, found = track_named(document["track"]), []
    names = {one.name for one in wanted(document)}
    have: dict[tuple[str, int, int], dict[str, dict[str, Any]]] = {}
    for row in document["rows"]:
        if row["instance"] not in names:
            raise SuiteError(f"results: expected instances of {document['split']}, found {row['instance']}")
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
