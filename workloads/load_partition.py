"""What is to be split over chips, by name or from a file: a workload or a profiled partitioning instance."""

from __future__ import annotations

import json
from pathlib import PurePath

from workloads.errors import InputError
from workloads.files import check_values, read_bytes, unpack
from workloads.importers.placement_json import MAX_FILE_BYTES, PlacementGraph, is_instance, parse
from workloads.load import load
from workloads.text import as_file_name
from workloads.workload import Workload

ENDINGS = (".json", ".json.gz")


def load_partition(name_or_file: str) -> Workload | PlacementGraph:
    """The instance in a .json or .json.gz file that holds one, else the workload that `workloads.load.load` finds.

    Raises:
        InputError: neither, in one line that says which and why.
    """
    if not name_or_file.lower().endswith(ENDINGS):
        return load(name_or_file)
    instance = read_instance(name_or_file)
    return load(name_or_file) if instance is None else instance


def read_instance(file: str) -> PlacementGraph | None:
    """The instance in a .json or .json.gz file; None where a file holds something else, a workload perhaps.

    Raises:
        InputError: unreadable, gzip without an instance in it, or an instance in which something is missing or
            impossible.
    """
    packed = read_bytes(file, "a workload or a placement instance", MAX_FILE_BYTES)
    data = unpack(packed, file, MAX_FILE_BYTES)
    if data is not packed:
        check_values(data, len(packed), file)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        document = None
    if is_instance(document):
        name = PurePath(file).name.removesuffix(".gz").removesuffix(".json")
        return parse(document, as_file_name(name, "instance"), file)
    if file.lower().endswith(".gz"):
        raise InputError(f"{file}: expected a placement instance (nodes, edges), found none in it")
    return None
