"""Mappings in files of other tools, as objects that mapping files have per node: tables, metadata of models, plans.

A table has a header, and commas, semicolons or tabs between its cells. It has one row per node, with a column per head
(`node,weight,activation`), or one row per tensor (`op,head,choice`, as `egrl export` writes it). `op` may be called
`node`, and `choice` `memory`. Further columns are ignored, the order of rows does not count; an empty cell, or `-`, is
a tensor that does not exist. Where a tensor has an address and a size, the size must be the problem's: addresses are
those of one network in one width.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from typing import Any

from hwsim.space import Space
from workloads.errors import InputError
from workloads.text import plain_cell

PREFIX = "egrl."
"""Keys of a model's metadata begin with it."""
OFFSET = "offset_bytes"
"""Name of the column, and the end of the keys, that have a tensor's address in its memory."""
SIZE = "size_bytes"
"""Likewise, of what it takes there."""
MODELS = (".onnx", ".onnx.gz")
NODE, CHOICE = ("node", "op"), ("choice", "memory")
"""What the columns of nodes and of choices are called."""
DELIMITERS = ",;\t"
"""What may stand between cells: the one that the header has most of does."""
OTHERS = "others"
"""Key of a model's metadata with the ops that none of its nodes names, such as those inside a branch: JSON."""
NONE = ("", "-")
PLACED = "tensors"
"""Key of a compiler's plan with what it places, in place of a mapping: objects with `tensor` and `bank`."""


def cells_of_csv(text: str, where: str) -> tuple[list[str], dict[str, dict[str, str]]]:
    """The header of a table, and the cells of each line by column, by where it stands ("where: line 2").

    InputError, beginning with `where`, where it is no table.
    """
    text = text.removeprefix("\ufeff")
    first = text.partition("\n")[0]
    try:
        delimiter = max(DELIMITERS, key=first.count)
        reader = csv.DictReader(io.StringIO(text, newline=""), strict=True, delimiter=delimiter)
        header = [name.strip() for name in reader.fieldnames or ()]
        reader.fieldnames = header
        rows = {f"{where}: line {reader.line_num}": row for row in reader}
    except csv.Error as error:
        raise InputError(f"{where}: expected a table (.csv), found {error}") from error
    cells = {
        place: {key: plain_cell((row.get(key) or "").strip()) for key in header}
        for place, row in rows.items()
    }
    return header, cells


def rows_of_csv(text: str, where: str, space: Space) -> dict[str, dict[str, str]]:
    """One object per line of a table, by where it stands.

    InputError, beginning with `where`, where it is no table, or an address is that of a tensor of another size.
    """
    header, table = cells_of_csv(text, where)
    node = next((name for name in NODE if name in header), None)
    choice = next((name for name in CHOICE if name in header), None)
    heads = [name for name in header if name in space.heads]
    if node is None or not (heads or ("head" in header and choice is not None)):
        raise InputError(
            f"{where}: expected the columns node,{','.join(space.heads)} or op,head,choice, found"
            f" {','.join(header)[:60]!r}"
        )
    found = {}
    for place, cells in table.items():
        named = {head: cells[head] for head in heads} if heads else {cells["head"]: cells[choice or ""]}
        given = {head: label for head, label in named.items() if label not in NONE}
        if cells.get(OFFSET) and not heads:
            check_size(cells[node], cells["head"], cells.get(SIZE), place, space)
        found[place] = {"node": cells[node], **given}
    return found


def check_size(node: str, head: str, size: object, where: str, space: Space) -> None:
    """InputError where a tensor with an address is said to have another size (None, "": nothing is said) than here."""
    if size in (None, "") or node not in space.nodes or head not in space.heads:
        return
    own = int(space.size_bytes[space.nodes.index(node), space.heads.index(head)])
    if str(size) != str(own):
        raise InputError(
            f"{where}: {SIZE} of the {head} of {node!r}: expected {own}, found {str(size)[:60]}; its address is for"
            f" another network or width of numbers (leave out {OFFSET} to read the places alone)"
        )


def rows_of_plan(document: Mapping[str, Any], where: str, space: Space) -> list[dict[str, str]]:
    """One object per tensor of a compiler's plan; its offsets are ignored. InputError, beginning with `where`."""
    rows = document.get(PLACED)
    if len(space.heads) != 1 or not isinstance(rows, list):
        expected = "a mapping of " + ", ".join(space.heads) if len(space.heads) != 1 else "a list of tensors"
        raise InputError(
            f"{where}: expected {expected}, found a compiler's plan, with a bank for each tensor"
        )
    given = [row if isinstance(row, Mapping) else {} for row in rows]
    return [{"node": row.get("tensor", ""), space.heads[0]: row.get("bank", "")} for row in given]


def rows_of_onnx(file: str, space: Space) -> list[dict[str, str]]:
    """One object per op that the nodes of an ONNX file name, as `egrl export --format onnx` writes them.

    InputError, beginning with `file`, where it is no model, its nodes name no op, or a tensor has another size here.
    """
    from workloads.compressed import unpack
    from workloads.files import MAX_BYTES, read_bytes
    from workloads.importers import onnx_file

    model = onnx_file.parse(unpack(read_bytes(file, "a model (.onnx, .onnx.gz)"), file, MAX_BYTES), file)
    found: dict[str, dict[str, str]] = {}
    for node in model.graph.node:
        named = _named(node)
        if "op" in named:
            name = named.pop("op")
            found.setdefault(name, {"node": name}).update(named)
    others = next((e.value for e in model.metadata_props if e.key == PREFIX + OTHERS), "{}")
    found |= {name: {"node": name, **heads} for name, heads in _others(others, file).items()}
    if not found:
        raise InputError(
            f"{file}: expected nodes with the metadata {PREFIX}op, as `egrl export --format onnx` writes them,"
            " found none"
        )
    return [_places(row, file, space) for row in found.values()]


def _places(row: dict[str, str], file: str, space: Space) -> dict[str, str]:
    """The node and its choices, after the sizes of what has an address were held to those of the space."""
    for key, value in row.items():
        head, _, what = key.rpartition(".")
        if what == SIZE:
            check_size(row["node"], head, value, file, space)
    return {key: value for key, value in row.items() if not key.endswith((f".{OFFSET}", f".{SIZE}"))}


def _others(text: str, file: str) -> dict[str, dict[str, str]]:
    """The heads of ops by name, of what `egrl export` leaves for those that no node names."""
    try:
        found = json.loads(text)
        return {str(name): {str(k): str(v) for k, v in heads.items()} for name, heads in found.items()}
    except (ValueError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{file}: metadata {PREFIX}{OTHERS}: expected an object of ops, found {error}"
        ) from None


def _named(node: Any) -> dict[str, str]:
    """egrl's metadata of a node, without the prefix."""
    return {
        entry.key.removeprefix(PREFIX): entry.value
        for entry in node.metadata_props
        if entry.key.startswith(PREFIX)
    }
