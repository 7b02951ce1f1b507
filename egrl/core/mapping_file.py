"""A mapping by the names of nodes, heads and choices: in best_mapping.json, in requests to boards, in other files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from egrl.core import mapping_table
from hwsim.capabilities import HasFiles, HasPlacement, HasPlanText
from hwsim.mappings import repair
from hwsim.problem import Mapping16, Problem
from workloads.errors import InputError
from workloads.files import read_text
from workloads.json_text import judge, parse_document, parse_object
from workloads.nearest import hint
from workloads.serialize import KIND as KIND_OF_NETWORKS
from workloads.serialize import from_json

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


def mapping_of(problem: Problem, names: Sequence[Mapping[str, Any]]) -> Mapping16:
    """The mapping int16 [N, H] that objects per node name, as `names_of` gives them; they may stand in any order.

    InputError if a node, a head or a choice is none of the problem's, one stands twice, or a choice is missing.
    """
    return _mapping_of_rows(_numbered([dict(row) for row in names], "names"), "names", problem)


def dumps(problem: Problem, mapping: Mapping16, name: str = "") -> str:
    """JSON of one mapping [N, H], as `names_of` has it, or as the plan that a problem writes it as.

    `name` is what texts call the mapping where it is a baseline; "": the file has none.
    """
    document: dict[str, Any] = {
        "kind": KIND,
        "version": VERSION,
        "problem": problem.about.name,
        "workload": problem.about.workload,
        "chip": problem.about.chip,
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
    return problem.space.canonical(mapping)


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
    if path.lower().endswith(mapping_table.MODELS):
        _refuse_table(problem, path, "a model")
        return _mapping_of_rows(
            _numbered(mapping_table.rows_of_onnx(path, problem.space), path), path, problem
        ), ""
    text = read_text(path, "a mapping file (.json, .csv, .onnx)")
    if not text.lstrip().startswith("{") and not path.lower().endswith(".json"):
        _refuse_table(problem, path, "a table")
        return _mapping_of_rows(mapping_table.rows_of_csv(text, path, problem.space), path, problem), ""
    document = parse_object(text, path, KIND)
    if mapping_table.PLACED in document and "mapping" not in document:
        plan = _numbered(mapping_table.rows_of_plan(document, path, problem.space), path)
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
