from __future__ import annotations

import csv
import re
import runpy
from pathlib import Path

from workloads.features import SCALES
from workloads.serialize import from_json, to_json
from workloads.zoo import ZOO, builder_of
from workloads.zoo.vector_ops import VECTOR_OPS

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
DOCS = (REFERENCE / "workloads.md").read_text(encoding="utf-8")


def rows(name: str) -> list[list[str]]:
    """Cells of a table beside the page, without its headings."""
    with (REFERENCE / "data" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))[1:]


def test_the_example_in_the_docs_is_a_workload():
    example = re.search(r"```json\n(.*?)```", DOCS, flags=re.DOTALL)
    assert example is not None
    net = from_json(example.group(1), "docs/reference/workloads.md")
    assert from_json(to_json(net), "again") == net


def test_the_table_of_the_zoo_states_what_is_built():
    built = {name: builder_of(name)() for name in ZOO}
    expected = [
        [f"`{name}`", str(len(net)), f"{net.parameters:,}", f"{net.macs / 1e9:.2f}"]
        for name, net in built.items()
    ]
    assert [row[:4] for row in rows("zoo")] == expected


def test_the_table_of_features_states_their_order_and_scales():
    stated = [(row[0].strip("`"), 1 / float(row[2].rsplit("/", 1)[1])) for row in rows("features")]
    assert stated == list(SCALES.items())


def test_the_table_of_vector_operations_states_all_of_them():
    stated = {row[0].strip("`"): int(row[1]) for row in rows("vector-operations")}
    assert stated == {work: ops for work, ops in VECTOR_OPS.items() if work}


def test_the_table_of_what_importers_count_is_that_of_the_code():
    made = runpy.run_path(str(REFERENCE.parents[1] / "tools" / "import_table.py"))["table"]()
    table = (REFERENCE / "data" / "operators.csv").read_text(encoding="utf-8")
    assert made == table, "python tools/import_table.py --write"
