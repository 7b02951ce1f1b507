"""A mapping by the names of nodes, heads and choices: in best_mapping.json, in requests to boards, in other files.

Mappings in files of other tools, as objects that mapping files have per node: tables, metadata of models, plans.

A table has a header, and commas, semicolons or tabs between its cells. It has one row per node, with a column per head
(`node,weight,activation`), or one row per tensor (`op,head,choice`, as `egrl export` writes it). `op` may be called
`node`, and `choice` `memory`. Further columns are ignored, the order of rows does not count; an empty cell, or `-`, is
a tensor that does not exist. Where a tensor has an address and a size, the size must be the problem's: addresses are
those of one network in one width.

Addresses that tensors must have: a table, or what `egrl allocate` wrote, with the rows that are to stay as they are.

A table has a header with the columns op (or node), head and offset_bytes, and may have memory (or choice), which is
then held to the mapping; further columns are ignored, and so is a row without an offset. In JSON the rows are the list
`tensors`.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hwsim.capabilities import HasFiles, HasPlacement, HasPlanText
from hwsim.mappings import repair
from hwsim.problem import Mapping16, Problem
from hwsim.space import Space
from workloads.errors import InputError
from workloads.files import read_text
from workloads.json_text import judge, parse_document, parse_object
from workloads.serialize import KIND as KIND_OF_NETWORKS
from workloads.serialize import from_json
from workloads.text import hint, plain_cell

KIND = "mapping"
VERSION = 1
PLACE = "place"
"""Key of what a choice led to (`HasPlacement`), for readers of the file; `loads` ignores it and derives it again."""


def names_of(problem: Problem, mapping: Mapping16) -> list[dict[str, Any]]:
    """One mapping [N, H] by names, one object per node; a dead decision is left out of its node's entry."""
    rows: list[dict[str, Any]] = []
    places = problem.placement(mapping) if isinstance(problem, HasPlacement) else [None] * len(mapping)
    for node, choices, place in zip(problem.space.nodes, mapping.tolist(), places, strict=True):
        row: dict[str, Any] = {"node": node}
        for head, labels, choice in zip(problem.space.heads, problem.space.labels, choices, strict=True):
            if choice >= 0:
                row[head] = labels[choice]
        if place is not None:
            row[PLACE] = place
        rows.append(row)
    return rows


def mapping_of(problem: Problem, names: Sequence[Any], where: str = "names") -> Mapping16:
    """The mapping int16 [N, H] that objects per node name, as `names_of` gives them; they may stand in any order.

    InputError that begins with `where` if one is no object, a node, a head or a choice is none of the problem's, one
    stands twice, or a choice is missing.

    Example:
        >>> import egrl
        >>> result = egrl.search("alexnet", method="annealing", evals=20)
        >>> bool((egrl.mapping_of(result.problem, result.names) == result.mapping).all())
        True
    """
    rows = [dict(row) if isinstance(row, Mapping) else row for row in names]
    return _mapping_of_rows(_numbered(rows, where), where, problem)


def dumps(problem: Problem, mapping: Mapping16, name: str = "") -> str:
    """JSON of one mapping [N, H], as `names_of` has it, or as the plan that a problem writes it as.

    `name` is what texts call the mapping where it is a baseline; "": the file has none.
    """
    document: dict[str, Any] = {
        "kind": KIND,
        "version": VERSION,
        **problem.about.names,
        **({"name": name} if name else {}),
    }
    if isinstance(problem, HasPlanText):
        document["plan"] = problem.plan_text(mapping)
    else:
        document["mapping"] = names_of(problem, mapping)
    return json.dumps(document, indent=1) + "\n"


def loads(text: str, where: str, problem: Problem) -> Mapping16:
    """int16 [N, H] of a mapping file for this problem; a decision that is not named is unused.

    Raises:
        InputError: not JSON, another kind, version, problem or workload, an unknown node, head or choice, a
            decision missing that the problem needs, or one given that it does not have.
    """
    return _mapping_of(parse_document(text, where, KIND, VERSION), where, problem)


def _mapping_of(document: Mapping[str, Any], where: str, problem: Problem) -> Mapping16:
    """int16 [N, H] of a document. InputError as `loads`."""
    for key, expected in (("problem", problem.about.name), ("workload", problem.about.workload)):
        if document.get(key) != expected:
            raise InputError(f"{where}: {key}: expected {expected!r}, found {document.get(key)!r}")
    if isinstance(problem, HasPlanText):
        plan = document.get("plan")
        if not isinstance(plan, str):
            raise InputError(f"{where}: plan: expected a text, found {type(plan).__name__}")
        return problem.read_plan(plan, f"{where}: plan")
    rows = document.get("mapping")
    if not isinstance(rows, list):
        raise InputError(f"{where}: mapping: expected a list of nodes, found {type(rows).__name__}")
    return _mapping_of_rows(_numbered(rows, f"{where}: mapping"), where, problem)


def _numbered(rows: Sequence[Any], where: str) -> dict[str, Any]:
    """Objects of a list, by where each stands: "where[0]"."""
    return {f"{where}[{number}]": row for number, row in enumerate(rows)}


def _mapping_of_rows(rows: Mapping[str, Any], where: str, problem: Problem) -> Mapping16:
    """int16 [N, H] of objects per node or per tensor, by where each stands. InputError as `loads`."""
    mapping = np.full(problem.space.initial.shape, -1, np.int16)
    at = {name: i for i, name in enumerate(problem.space.nodes)}
    seen: set[tuple[str, str]] = set()
    for place, row in rows.items():
        _read_row(row, place, problem, at, seen, mapping)
    try:  # the problem knows what it cannot express; what it would mend stays as the file has it
        repair(problem, mapping[None], np.zeros(1, np.uint64))
    except ValueError as error:
        raise InputError(f"{where}: {_missing(problem, mapping) or error}") from error
    kept = problem.space.canonical(mapping)
    elsewhere = np.argwhere((kept != mapping) & problem.space.live)
    if len(elsewhere):  # only pins change what was read
        node, head = elsewhere[0]
        labels = problem.space.labels[head]
        raise InputError(
            f"{where}: expected a mapping that keeps the pins, {problem.space.heads[head]} of"
            f" {problem.space.nodes[node]!r} in {labels[kept[node, head]]}, found {labels[mapping[node, head]]}"
        )
    return kept


def _missing(problem: Problem, mapping: Mapping16) -> str:
    """The first decision that has no choice in a mapping [N, H], in words; "" if all have one."""
    missing = np.argwhere((mapping < 0) & problem.space.live)
    if not len(missing):
        return ""
    node, head = (int(k) for k in missing[0])
    space, more = problem.space, f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    labels = ", ".join(space.labels[head][: int(space.num_choices[node, head])])
    return (
        f"expected one of {labels} for every {' and '.join(space.heads)}, found none for the {space.heads[head]} of"
        f" {space.nodes[node]!r}{more}"
    )


def _joined(problem: Problem, name: Any) -> str:
    """The op that a node of the model's file joined, in words; "" if it is none of these."""
    text = problem.files().get("workload.json") if isinstance(problem, HasFiles) else None
    ops = from_json(text, "").ops if isinstance(text, str) and f'"{KIND_OF_NETWORKS}"' in text[:100] else ()
    op = next((op.name for op in ops if name in op.joined), None)
    return "" if op is None else f", which runs in the op {op!r}: name that alone"


def _read_row(
    row: Any, where: str, problem: Problem, at: dict[str, int], seen: set[tuple[str, str]], mapping: Mapping16
) -> None:
    if not isinstance(row, dict) or not isinstance(row.get("node"), str) or row["node"] not in at:
        found = row.get("node") if isinstance(row, dict) else row
        raise InputError(
            f"{where}: expected a node of {problem.about.workload}, found {str(found)[:60]!r}"
            f"{_joined(problem, found) or hint(str(found)[:60], at)}"
        )
    name = row["node"]
    for head, choice in row.items():
        if head in ("node", PLACE):
            continue
        if head not in problem.space.heads:
            raise InputError(f"{where}: expected heads {', '.join(problem.space.heads)}, found {head!r}")
        if (name, head) in seen:
            raise InputError(f"{where}: expected each tensor once, found the {head} of {name!r} again")
        seen.add((name, head))
        node, column = at[name], problem.space.heads.index(head)
        if not problem.space.live[node, column]:
            raise InputError(
                f"{where}: expected no {head} of {name!r}, which has none, found {str(choice)[:60]!r}"
            )
        labels = problem.space.labels[column][: int(problem.space.num_choices[node, column])]
        if choice not in labels:
            raise InputError(
                f"{where}: {head} of {name!r}: expected one of {', '.join(labels)}, found {str(choice)[:60]!r}"
            )
        mapping[node, column] = labels.index(choice)


def read(path: str, problem: Problem) -> Mapping16:
    """The mapping in a file: a model (.onnx, .onnx.gz) whose nodes have it in their metadata, else JSON or a table.

    A text that begins with `{` is JSON, and so is a .json file; anything else is a table, whatever its name ends in.
    InputError in one line that begins with the path, where it cannot be read or does not fit the problem.
    """
    return read_named(path, problem)[0]


def read_named(path: str, problem: Problem) -> tuple[Mapping16, str]:
    """The mapping in a file, and the name that the file gives it ("": none). InputError as `read`."""
    if path.lower().endswith(MODELS):
        _refuse_table(problem, path, "a model")
        return _mapping_of_rows(_numbered(rows_of_onnx(path, problem.space), path), path, problem), ""
    text = read_text(path, "a mapping file (.json, .csv, .onnx)")
    if not text.lstrip().startswith("{") and not path.lower().endswith(".json"):
        _refuse_table(problem, path, "a table")
        return _mapping_of_rows(rows_of_csv(text, path, problem.space), path, problem), ""
    document = parse_object(text, path, KIND)
    if PLACED in document and "mapping" not in document:
        plan = _numbered(rows_of_plan(document, path, problem.space), path)
        return _mapping_of_rows(plan, path, problem), ""
    judge(document, path, KIND, VERSION)
    name = document.get("name", "")
    if not isinstance(name, str) or not name.isprintable():
        raise InputError(f"{path}: name: expected a printable text, found {str(name)[:60]!r}")
    return _mapping_of(document, path, problem), name


def _refuse_table(problem: Problem, path: str, found: str) -> None:
    """InputError where the problem's mappings are plans, which no table has."""
    if isinstance(problem, HasPlanText):
        raise InputError(f"{path}: expected a mapping file (best_mapping.json), found {found}")


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
    from workloads.files import MAX_BYTES, read_bytes, unpack
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


LARGEST = 2**53

Addresses = dict[tuple[str, str], tuple[int, str]]
"""Offset in bytes, and the memory that the file names ("": none), by (op, head)."""


def read_addresses(file: str, space: Space) -> Addresses:
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
