"""The best mappings known and the bounds proved before, as package data: nobody need repeat hours of search or proof.

A mapping is one JSON file per workload and chip, with cost, command and hash. It holds only for the simulator, chip and
workload that its hash names: under any other the mapping has another cost, or does not run at all. If only the names
agree, `find` says so instead of comparing.

    {"kind": "best_known", "version": 1, "workload": …, "chip": …, "hash": …, "cost_s": …, "command": …,
     "memories": [slowest, …], "mapping": [[weight, activation], …]}

Bounds are in `best_known/bounds.json`, one entry per hash, with the command that proved it. Entries only ever rise.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from hwsim.nnpi.chip import Chip
from hwsim.nnpi.latency import SIMULATOR_VERSION, trace_latency
from hwsim.nnpi.rectify import rectify
from hwsim.nnpi.tables import Tables, build_tables
from hwsim.problem import Bound, Mapping16
from workloads.errors import InputError
from workloads.files import read_text, replace_file
from workloads.json_text import parse_document
from workloads.workload import Workload

KIND = "best_known"
VERSION = 1

PACKAGED = Path(str(files("hwsim.nnpi"))) / "best_known"
"""The folder of the package's files."""


@dataclass(frozen=True)
class BestKnown:
    """The best mapping known of a workload on a chip.

    Attributes:
        mapping: int16 [N, 2], canonical and valid.
        cost_s: its noise-free latency.
        command: what found it.
        hash: of simulator, chip and workload.
    """

    mapping: Mapping16
    cost_s: float
    command: str
    hash: str


@dataclass(frozen=True)
class NotComparable:
    """There is a best mapping under these names, but of another simulator, chip or workload."""

    found: str
    expected: str
    where: str

    def __str__(self) -> str:
        return (
            f"{self.where}: a best mapping is known under hash {self.found[:12]}, but simulator, chip and "
            f"workload here have {self.expected[:12]}: not comparable"
        )


def identity(workload: Workload, chip: Chip) -> str:
    """Hex digest of what a noise-free cost depends on, and of nothing else: neither settings nor names count.

    That is the simulator's version and the tables that it makes of chip and workload (the noise aside).

    Raises:
        InputError: see `build_tables`.
    """
    return digest(build_tables(workload, chip))


def digest(tables: Tables) -> str:
    """`identity` of tables that are there already."""
    found = hashlib.sha256(f"simulator {SIMULATOR_VERSION}".encode())
    # At their defaults these say nothing new, and digests stay what they were before chip files had them.
    same: dict[str, Any] = {"written_bytes": tables.activation_bytes, "pass_bytes": tables.passes}
    same |= {
        "access_s": np.zeros(len(tables.access_s)),
        "serial": 0.0,
        "shared": 0.0,
        "steps": np.ones(len(tables.steps)),
    }
    for name, value in tables._replace(sigma=0.0)._asdict().items():
        if name in same and np.array_equal(value, same[name]):
            continue
        if name.startswith("unit_") and not len(tables.unit_op):
            continue
        array = np.ascontiguousarray(value)
        little = array.astype(array.dtype.newbyteorder("<"))
        found.update(f"{name} {little.dtype.str} {little.shape}".encode() + little.tobytes())
    return found.hexdigest()


def find(workload: Workload, chip: Chip, folder: Path = PACKAGED) -> BestKnown | NotComparable | None:
    """What is known: a mapping, one that is not comparable, or None if the names are unknown.

    Raises:
        InputError: a file is there and is not a best mapping.
    """
    tables = build_tables(workload, chip)
    expected = digest(tables)
    file = _file(workload, chip, expected, folder)
    if not file.exists():
        others = sorted(folder.glob(f"{_stem(workload, chip)}.*.json"))
        if not others:
            return None
        return NotComparable(str(_read(others[0])["hash"]), expected, others[0].name)
    document = _read(file)
    if document["hash"] != expected:
        return NotComparable(str(document["hash"]), expected, file.name)
    mapping = _mapping(document, tables, file)
    cost_s = trace_latency(tables, mapping)[0]
    return BestKnown(mapping, cost_s, str(document["command"]), expected)


def best_known(workload: Workload, chip: Chip, folder: Path = PACKAGED) -> BestKnown | None:
    """The best mapping known, or None; `find` says why there is none."""
    found = find(workload, chip, folder)
    return found if isinstance(found, BestKnown) else None


def record(
    workload: Workload, chip: Chip, mapping: Mapping16, command: str, folder: Path = PACKAGED
) -> BestKnown:
    """Keep a mapping int16 [N, 2] if it is faster than the one known; the one that is then known.

    Both are measured anew, so that a file never gets worse; it is replaced as a whole or not at all.

    Raises:
        ValueError: the mapping is not valid as it stands.
        InputError: the file there is not a best mapping.
    """
    tables = build_tables(workload, chip)
    _check(tables, mapping)
    cost_s = trace_latency(tables, mapping)[0]
    known = best_known(workload, chip, folder)
    if known is not None and known.cost_s <= cost_s:
        return known
    best = BestKnown(mapping.copy(), cost_s, command, digest(tables))
    folder.mkdir(parents=True, exist_ok=True)
    replace_file(_file(workload, chip, best.hash, folder), _text(workload, chip, best).encode())
    return best


def _check(tables: Tables, mapping: Mapping16) -> None:
    sizes = np.stack([tables.weight_bytes, tables.activation_bytes], axis=1)
    levels = len(tables.capacity_bytes)
    if mapping.dtype != np.int16 or mapping.shape != sizes.shape:
        raise ValueError(
            f"mapping: expected int16 of shape {sizes.shape}, received {mapping.dtype} of shape {mapping.shape}"
        )
    if not np.where(sizes > 0, (mapping >= 0) & (mapping < levels), mapping == -1).all():
        raise ValueError(f"mapping: expected memories 0..{levels - 1} (closed), -1 where there is no tensor")
    moved = int(rectify(tables, np.ascontiguousarray(mapping)[None])[1][0])
    if moved:
        raise ValueError(f"mapping: expected one that fits, received one of which {moved} bytes do not")


def _mapping(document: dict[str, Any], tables: Tables, file: Path) -> Mapping16:
    try:
        mapping = np.array(document["mapping"], np.int16)
        _check(tables, mapping)
    except (ValueError, OverflowError, TypeError) as error:
        raise InputError(f"{file}: mapping: expected a valid mapping, found: {error}") from error
    return mapping


def _stem(workload: Workload, chip: Chip) -> str:
    return f"{_bare(chip.name)}.{_bare(workload.name)}"


def _bare(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_+-]", "_", name)


def _file(workload: Workload, chip: Chip, digest: str, folder: Path) -> Path:
    return folder / f"{_stem(workload, chip)}.{digest[:12]}.json"


def _read(file: Path) -> dict[str, Any]:
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{file}: expected a readable best mapping in JSON, found: {error}") from error
    if not isinstance(document, dict) or document.get("kind") != KIND or document.get("version") != VERSION:
        raise InputError(f"{file}: expected kind {KIND!r}, version {VERSION}, found another document")
    for field in ("hash", "command", "mapping"):
        if field not in document:
            raise InputError(f"{file}: {field}: expected a value, found none")
    return document


def _text(workload: Workload, chip: Chip, best: BestKnown) -> str:
    document = {
        "kind": KIND,
        "version": VERSION,
        "workload": workload.name,
        "chip": chip.name,
        "hash": best.hash,
        "cost_s": best.cost_s,
        "command": best.command,
        "memories": list(chip.memory_names),
        "mapping": best.mapping.tolist(),
    }
    lines = ",\n".join(f'"{key}": {json.dumps(value)}' for key, value in document.items())
    return f"{{{lines}}}\n"


BOUNDS_KIND, BOUNDS_VERSION = "bounds", 1
BOUNDS = PACKAGED / "bounds.json"


def proved(tables: Tables, file: Path = BOUNDS) -> Bound | None:
    """The packaged bound for these tables, or None. InputError if the file is damaged."""
    entry = _entries(file).get(digest(tables))
    if entry is None:
        return None
    proof = f"{entry['proof']} (proved before: {entry['command']})"
    return Bound(float(entry["bound_s"]), math.inf, proof, 0.0)


def record_bound(tables: Tables, names: str, bound: Bound, command: str, file: Path = BOUNDS) -> Bound:
    """Keep a bound if it is above the one known; the one that is then known. `names` is for readers of the file."""
    known = proved(tables, file)
    if known is not None and known.cost >= bound.cost:
        return known
    entries = _entries(file)
    entries[digest(tables)] = {"of": names, "bound_s": bound.cost, "proof": bound.proof, "command": command}
    lines = ",\n".join(
        f' "{key}": {json.dumps(entries[key])}' for key in sorted(entries, key=lambda k: entries[k]["of"])
    )
    text = f'{{"kind": "{BOUNDS_KIND}", "version": {BOUNDS_VERSION}, "bounds": {{\n{lines}\n}}}}\n'
    replace_file(file, text.encode())
    return bound


def _entries(file: Path) -> dict[str, dict[str, Any]]:
    if not file.exists():
        return {}
    entries = parse_document(read_text(file, "proved bounds"), str(file), BOUNDS_KIND, BOUNDS_VERSION).get(
        "bounds"
    )
    if not isinstance(entries, dict):
        raise InputError(f"{file}: bounds: expected an object, found another value")
    return entries
