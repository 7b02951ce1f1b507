"""Addresses that tensors must have: a table, or what `egrl allocate` wrote, with the rows that are to stay as they are.

A table has a header with the columns op (or node), head and offset_bytes, and may have memory (or choice), which is
then held to the mapping; further columns are ignored, and so is a row without an offset. In JSON the rows are the list
`tensors`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from egrl.core.mapping_table import CHOICE, NODE, OFFSET, SIZE, cells_of_csv, check_size
from hwsim.space import Space
from workloads.errors import InputError
from workloads.files import read_text
from workloads.json_text import parse_document
from workloads.nearest import hint

LARGEST = 2**53

Addresses = dict[tuple[str, str], tuple[int, str]]
"""Offset in bytes, and the memory that the file names ("": none), by (op, head)."""


def read(file: str, space: Space) -> Addresses:
    """The addresses in a file. InputError in one line, beginning with the file, where it is none of this space."""
    text = read_text(file, "a table of addresses (.csv) or an allocation (.json)")
    found: Addresses = {}
    for where, row in (_of_json if text.lstrip().startswith("{") else _of_csv)(text, file).items():
        node, head = (str(row.get(key) or "") for key in ("op", "head"))
        if node not in space.nodes or head not in space.heads:
            known = space.heads if node in space.nodes else space.nodes
            wrong = head if node in space.nodes else node
            raise InputError(
                f"{where}: expected an op and a head of the mapping, found {wrong[:60]!r}{hint(wrong[:60], known)}"
            )
        if (node, head) in found:
            raise InputError(f"{where}: expected each tensor once, found the {head} of {node!r} again")
        check_size(node, head, row.get(SIZE), where, space)
        found[node, head] = _offset(row.get(OFFSET), where), str(row.get("memory") or "")
    return found


def _of_json(text: str, file: str) -> dict[str, Mapping[str, Any]]:
    rows = parse_document(text, file, "allocation", 1).get("tensors")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{file}: tensors: expected a list of objects, found another value")
    return {f"{file}: tensors[{at}]": row for at, row in enumerate(rows) if row.get(OFFSET) is not None}


def _of_csv(text: str, file: str) -> dict[str, Mapping[str, Any]]:
    header, table = cells_of_csv(text, file)
    names = {**dict.fromkeys(NODE, "op"), **dict.fromkeys(CHOICE, "memory")}
    if not {"op", "head", OFFSET} <= {names.get(name, name) for name in header}:
        raise InputError(f"{file}: expected the columns op,head,{OFFSET}, found {','.join(header)[:60]!r}")
    return {
        where: {names.get(key, key): cell for key, cell in row.items()}
        for where, row in table.items()
        if row[OFFSET]
    }


def _offset(value: Any, where: str) -> int:
    try:
        offset = int(value) if isinstance(value, str) else value
    except ValueError:
        offset = None
    if type(offset) is not int or not 0 <= offset < LARGEST:
        raise InputError(
            f"{where}: {OFFSET}: expected a whole number of bytes not below 0, found {str(value)[:60]!r}"
        )
    return offset
