"""Sharding instances from files: the JSON of the contest on intra-operator parallelism (ASPLOS / EuroSys 2025).

    {"problem": {"name": …, "usage_limit": …,
                 "nodes": {"intervals": [[lower, upper], …], "costs": [[…], …], "usages": [[…], …]},
                 "edges": {"nodes": [[a, b], …], "costs": [[…], …]}}}

Costs of an edge are row by row, strategy of a, then strategy of b. All numbers are whole, from 0, and fit in 64 bits.
An instance is called by its file's name; a copy that a run keeps has what it was called beside `problem`, as `called`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egrl_shard.sharding import MOST_STRATEGIES, Sharding, check
from workloads.errors import InputError
from workloads.files import check_values, pack, read_bytes, unpack
from workloads.json_text import describe, parse_object
from workloads.text import FILE_NAME, as_file_name, is_file_name

KIND = "sharding instance"
MAX_FILE_BYTES = 1 << 29
"""Largest file, unpacked; the largest of the ten published instances has 93 MB."""
ENDINGS = (".json", ".json.gz")
MOST_NUMBER = 2**63 - 1
LEVEL = 1
"""Of packing a copy: some 4 s for the largest instances, and a third more than the highest level leaves."""


def load_sharding(name_or_file: str) -> Sharding:
    """The instance in a .json or .json.gz file; none ships with the package.

    Raises:
        InputError: unreadable, damaged, or an instance in which something is missing, impossible or could overflow; one
            line with file and field.
    """
    file = name_or_file
    if not file.lower().endswith(ENDINGS):
        raise InputError(
            f"--workload {file}: expected a file of a {KIND} ({' or '.join(ENDINGS)}), found another name"
        )
    packed = read_bytes(file, f"a {KIND}", MAX_FILE_BYTES)
    data = unpack(packed, file, MAX_FILE_BYTES)
    if data is not packed:
        check_values(data, len(packed), file)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{file}: expected JSON in UTF-8, found other bytes at offset {error.start}"
        ) from None
    del packed, data
    document = parse_object(text, file, KIND)
    name = PurePath(file).name.removesuffix(".gz").removesuffix(".json")
    called = document.get("called", as_file_name(name, "instance"))
    if not is_file_name(called):
        raise InputError(f"{file}: called: expected {FILE_NAME}, found {describe(called)}")
    return parse(document, called, file)


def packed(sharding: Sharding) -> bytes:
    """The instance as a .json.gz file that `load_sharding` reads as an equal one, its name included."""
    rows = [
        [part.tolist() for part in np.split(numbers, first[1:-1])] if len(first) > 1 else []
        for numbers, first in (
            (sharding.cost, sharding.first),
            (sharding.usage, sharding.first),
            (sharding.edge_cost, sharding.edge_first),
        )
    ]
    spans = np.stack([sharding.start, sharding.end], axis=1).tolist()
    nodes = {"intervals": spans, "costs": rows[0], "usages": rows[1]}
    edges = {"nodes": sharding.edge_nodes.tolist(), "costs": rows[2]}
    problem = {"name": sharding.name, "usage_limit": sharding.limit, "nodes": nodes, "edges": edges}
    document = {"called": sharding.name, "problem": problem}
    return pack(json.dumps(document, separators=(",", ":")).encode(), LEVEL)


def parse(document: dict[str, Any], name: str, where: str) -> Sharding:
    """The instance in a JSON object; `name` is its name, `where` (a file name) opens the message of an error.

    Raises:
        InputError: as `load_sharding`.
    """
    problem = _object(document, "problem", where)
    nodes, edges = _object(problem, "nodes", where), _object(problem, "edges", where)
    costs, first = _rows(nodes, "costs", f"{where}: nodes")
    usages, counts = _rows(nodes, "usages", f"{where}: nodes")
    count = len(first) - 1
    if count < 1:
        raise InputError(f"{where}: nodes.costs: expected one node or more, found none")
    strategies = np.diff(first)
    if strategies.min() < 1 or strategies.max() > MOST_STRATEGIES:
        node = int(((strategies < 1) | (strategies > MOST_STRATEGIES)).argmax())
        raise InputError(
            f"{where}: nodes.costs[{node}]: expected 1 to {MOST_STRATEGIES} strategies, found {strategies[node]}"
        )
    _same_lengths(np.diff(counts), strategies, f"{where}: nodes.usages", "numbers, as of costs")
    spans = _pairs(nodes, "intervals", f"{where}: nodes", count)
    if (backward := spans[:, 0] > spans[:, 1]).any():
        node = int(backward.argmax())
        raise InputError(
            f"{where}: nodes.intervals[{node}]: expected lower <= upper, found {spans[node].tolist()}"
        )
    ends = _pairs(edges, "nodes", f"{where}: edges")
    if ((wrong := ends.max(axis=1, initial=0) >= count) | (loop := ends[:, 0] == ends[:, 1])).any():
        edge = int((wrong | loop).argmax())
        raise InputError(
            f"{where}: edges.nodes[{edge}]: expected two nodes below {count}, found {ends[edge].tolist()}"
        )
    edge_cost, edge_first = _rows(edges, "costs", f"{where}: edges")
    _same_lengths(
        np.diff(edge_first),
        strategies[ends[:, 0]] * strategies[ends[:, 1]],
        f"{where}: edges.costs",
        "numbers, one a pair of strategies",
    )
    limit = problem.get("usage_limit")
    if type(limit) is not int or not 0 <= limit <= MOST_NUMBER:
        found = describe(limit) if "usage_limit" in problem else "nothing"
        raise InputError(f"{where}: usage_limit: expected a whole number from 0 to 2^63 - 1, found {found}")
    start, end = np.ascontiguousarray(spans.T)
    sharding = Sharding(
        name, limit, start, end, first, costs, usages, ends.astype(np.int32), edge_first, edge_cost
    )
    check(sharding, where)
    return sharding


def _object(document: dict[str, Any], key: str, where: str) -> dict[str, Any]:
    value = document.get(key)
    if not isinstance(value, dict):
        found = describe(value) if key in document else "nothing"
        raise InputError(f"{where}: {key}: expected an object, found {found}")
    return value


def _lists(table: dict[str, Any], key: str, where: str) -> list[list[Any]]:
    """A list of lists."""
    value = table.get(key)
    if not isinstance(value, list):
        found = describe(value) if key in table else "nothing"
        raise InputError(f"{where}.{key}: expected a list, found {found}")
    for at, row in enumerate(value):
        if not isinstance(row, list):
            raise InputError(f"{where}.{key}[{at}]: expected a list, found {describe(row)}")
    return value


def _rows(table: dict[str, Any], key: str, where: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The numbers of all rows, one after the other, and where each row begins; the lists are let go."""
    rows = _lists(table, key, where)
    first = np.concatenate([[0], np.cumsum([len(row) for row in rows], dtype=np.int64)]).astype(np.int64)
    numbers = _numbers(rows, f"{where}.{key}")
    del rows, table[key]
    return numbers, first


def _numbers(rows: Sequence[Sequence[Any]], where: str) -> NDArray[np.int64]:
    """int64 of all elements; InputError that names the first that is no whole number from 0 to 2^63 - 1."""
    if set(map(type, chain.from_iterable(rows))) <= {int}:
        try:
            numbers = np.fromiter(chain.from_iterable(rows), np.int64)
        except OverflowError:
            numbers = np.array([-1])
        if numbers.min(initial=0) >= 0:
            return numbers
    at, place, value = next(
        (at, place, value)
        for at, row in enumerate(rows)
        for place, value in enumerate(row)
        if type(value) is not int or not 0 <= value <= MOST_NUMBER
    )
    raise InputError(
        f"{where}[{at}][{place}]: expected a whole number from 0 to 2^63 - 1, found {describe(value)}"
    )


def _pairs(table: dict[str, Any], key: str, where: str, count: int | None = None) -> NDArray[np.int64]:
    """int64 [count, 2], a pair of numbers a row."""
    rows = _lists(table, key, where)
    if count is not None and len(rows) != count:
        raise InputError(f"{where}.{key}: expected {count}, one per node, found {len(rows)}")
    lengths = np.fromiter((len(row) for row in rows), np.int64, len(rows))
    _same_lengths(lengths, np.full(len(rows), 2), f"{where}.{key}", "numbers")
    return _numbers(rows, f"{where}.{key}").reshape(-1, 2)


def _same_lengths(found: NDArray[np.int64], expected: NDArray[np.int64], where: str, what: str) -> None:
    if len(found) != len(expected):
        raise InputError(f"{where}: expected {len(expected)} lists, found {len(found)}")
    if (wrong := found != expected).any():
        at = int(wrong.argmax())
        raise InputError(f"{where}[{at}]: expected {expected[at]} {what}, found {found[at]}")
