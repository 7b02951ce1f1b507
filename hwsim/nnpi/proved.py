"""Bounds proved before, as package data: an hour of branch and cut need not be repeated by everyone.

`best_known/bounds.json` holds one entry a hash (`best_known.digest`: simulator, chip, workload); an entry says what
command proved it, which anyone can run again. Entries only ever rise.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from hwsim.nnpi.best_known import PACKAGED, digest
from hwsim.nnpi.tables import Tables
from hwsim.problem import Bound
from workloads.atomic import replace_file
from workloads.errors import InputError
from workloads.files import read_text
from workloads.json_text import parse_document

KIND, VERSION = "bounds", 1
FILE = PACKAGED / "bounds.json"


def proved(tables: Tables, file: Path = FILE) -> Bound | None:
    """The packaged bound for these tables, or None. InputError where the file is damaged."""
    entry = _entries(file).get(digest(tables))
    if entry is None:
        return None
    proof = f"{entry['proof']} (proved before: {entry['command']})"
    return Bound(float(entry["bound_s"]), math.inf, proof, 0.0)


def record_bound(tables: Tables, names: str, bound: Bound, command: str, file: Path = FILE) -> Bound:
    """Keep a bound if it is above the one known; the one that is then known. `names` is for readers of the file."""
    known = proved(tables, file)
    if known is not None and known.cost >= bound.cost:
        return known
    entries = _entries(file)
    entries[digest(tables)] = {"of": names, "bound_s": bound.cost, "proof": bound.proof, "command": command}
    lines = ",\n".join(
        f' "{key}": {json.dumps(entries[key])}' for key in sorted(entries, key=lambda k: entries[k]["of"])
    )
    text = f'{{"kind": "{KIND}", "version": {VERSION}, "bounds": {{\n{lines}\n}}}}\n'
    replace_file(file, text.encode())
    return bound


def _entries(file: Path) -> dict[str, dict[str, Any]]:
    if not file.exists():
        return {}
    entries = parse_document(read_text(file, "proved bounds"), str(file), KIND, VERSION).get("bounds")
    if not isinstance(entries, dict):
        raise InputError(f"{file}: bounds: expected an object, found another value")
    return entries
