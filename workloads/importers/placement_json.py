"""Profiled partitioning instances: the JSON of "Efficient algorithms for device placement of DNN graph operators".

Source: Tarnawski et al., NeurIPS 2020, whose inputs are MIT-licensed. Read of a node: `id`, `name`, `fpgaLatency` (time
on an accelerator), `size` (bytes held there), `colorClass` (nodes of one class must share a device), `supportedOnFpga`,
`isBackwardNode`; of an edge: `sourceId`, `destId`, `cost` (time to transfer, in the unit of the latencies), `size`.
The file does not name the unit of its times. `maxFPGAs` and `maxSizePerFPGA` are kept and decide nothing.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.errors import InputError
from workloads.json_text import describe
from workloads.text import FILE_NAME, encodes, is_file_name

MAX_FILE_BYTES = 256 << 20


@dataclass(frozen=True)
class PlacementGraph:
    """A profiled instance of N nodes and E edges.

    Attributes:
        name: the file's name without its ending.
        nodes: names, N of them.
        edges: int64 [E, 2], positions of the node that is read and of its reader.
        latency: float64 [N], time of a node on an accelerator, in the file's unit.
        size_bytes: int64 [N].
        group: int64 [N], nodes of one number must share a device.
        transfer_time: float64 [E], in the unit of latency.
        transfer_bytes: int64 [E].
        devices: accelerators that the file asks for, None where it does not say; a package decides, not the file.
        device_bytes: memory of one, likewise.
    """

    name: str
    nodes: tuple[str, ...]
    edges: NDArray[np.int64]
    latency: NDArray[np.float64]
    size_bytes: NDArray[np.int64]
    group: NDArray[np.int64]
    transfer_time: NDArray[np.float64]
    transfer_bytes: NDArray[np.int64]
    devices: int | None
    device_bytes: int | None


def parse(document: Any, name: str, where: str) -> PlacementGraph:
    """The instance in a JSON object; `where` (a file name) opens the message of an error.

    `name` is its name where the document has none of its own.

    Raises:
        InputError: a field missing or impossible, an edge to no node, or a node that accelerators do not support; one
            line with the file and the field.
    """
    if not isinstance(document, dict):
        raise InputError(f"{where}: expected a JSON object, found {describe(document)}")
    nodes, links = _objects(document, "nodes", where), _objects(document, "edges", where)
    if not nodes:
        raise InputError(f"{where}: nodes: expected at least one, found none")
    at: dict[int, int] = {}
    for i, node in enumerate(nodes):
        number = _whole(node, "id", f"{where}: nodes[{i}]")
        if number in at:
            raise InputError(f"{where}: nodes[{i}].id: expected a number of its own, found {number} again")
        at[number] = i
        if not node.get("supportedOnFpga", True):
            raise InputError(
                f"{where}: nodes[{i}].supportedOnFpga: expected true, found false: no chip can run it"
            )
    colours = [_whole(node, "colorClass", f"{where}: nodes[{i}]", -1) for i, node in enumerate(nodes)]
    alone = max(colours) + 1
    groups = [alone + i if colour < 0 else colour for i, colour in enumerate(colours)]
    ends = []
    for i, link in enumerate(links):
        pair = [_whole(link, key, f"{where}: edges[{i}]") for key in ("sourceId", "destId")]
        for key, number in zip(("sourceId", "destId"), pair, strict=True):
            if number not in at:
                raise InputError(f"{where}: edges[{i}].{key}: expected the id of a node, found {number}")
        ends.append([at[number] for number in pair])
    own = document.get("name", name)
    if not is_file_name(own):
        raise InputError(f"{where}: name: expected {FILE_NAME}, found {describe(own)}")
    return PlacementGraph(
        own,
        tuple(_label(node, f"{where}: nodes[{i}]") for i, node in enumerate(nodes)),
        np.array(ends, np.int64).reshape(-1, 2),
        np.array([_number(node, "fpgaLatency", f"{where}: nodes[{i}]") for i, node in enumerate(nodes)]),
        np.array([_bytes(node, f"{where}: nodes[{i}]") for i, node in enumerate(nodes)], np.int64),
        np.array(groups, np.int64),
        np.array([_number(link, "cost", f"{where}: edges[{i}]") for i, link in enumerate(links)], np.float64),
        np.array(
            [_bytes(link, f"{where}: edges[{i}]") if "size" in link else 0 for i, link in enumerate(links)],
            np.int64,
        ),
        _whole(document, "maxFPGAs", where) if "maxFPGAs" in document else None,
        int(_number(document, "maxSizePerFPGA", where)) if "maxSizePerFPGA" in document else None,
    )


def is_instance(document: Any) -> bool:
    """Whether a JSON document looks like one of these instances, and not like a workload."""
    return isinstance(document, dict) and "kind" not in document and {"nodes", "edges"} <= set(document)


def to_json(instance: PlacementGraph) -> str:
    """The instance as JSON that `parse` reads as an equal one."""
    of_nodes = (each.tolist() for each in (instance.latency, instance.size_bytes, instance.group))
    nodes = [
        {"id": i, "name": name, "fpgaLatency": latency, "size": size, "colorClass": group}
        for i, (name, latency, size, group) in enumerate(zip(instance.nodes, *of_nodes, strict=True))
    ]
    of_edges = (each.tolist() for each in (instance.transfer_time, instance.transfer_bytes))
    edges = [
        {"sourceId": source, "destId": reader, "cost": time, "size": size}
        for (source, reader), time, size in zip(instance.edges.tolist(), *of_edges, strict=True)
    ]
    asked = {"maxFPGAs": instance.devices, "maxSizePerFPGA": instance.device_bytes}
    document = {
        "name": instance.name,
        **{key: value for key, value in asked.items() if value is not None},
        "nodes": nodes,
        "edges": edges,
    }
    return json.dumps(document, indent=0) + "\n"


def _objects(document: dict[str, Any], key: str, where: str) -> list[dict[str, Any]]:
    value = document.get(key)
    if not isinstance(value, list):
        found = describe(value) if key in document else "nothing"
        raise InputError(f"{where}: {key}: expected a list, found {found}")
    for i, item in enumerate(value):
        if not isinstance(item, dict):
            raise InputError(f"{where}: {key}[{i}]: expected an object, found {describe(item)}")
    return value


def _label(node: dict[str, Any], where: str) -> str:
    """A node's name: its id where it has none."""
    value = node.get("name", str(node["id"]))
    if not isinstance(value, str) or not encodes(value):
        raise InputError(f"{where}.name: expected text, found {describe(value)}")
    return value


def _whole(item: dict[str, Any], key: str, where: str, default: int | None = None) -> int:
    if key not in item and default is not None:
        return default
    value = item.get(key)
    if type(value) is not int or not 0 <= value < 2**53:
        found = describe(value) if key in item else "nothing"
        raise InputError(f"{where}.{key}: expected a whole number from 0, found {found}")
    return value


def _number(item: dict[str, Any], key: str, where: str) -> float:
    value = item.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**53:
        found = describe(value) if key in item else "nothing"
        raise InputError(f"{where}.{key}: expected a number from 0, found {found}")
    return float(value)


def _bytes(item: dict[str, Any], where: str) -> int:
    return math.ceil(_number(item, "size", where))
