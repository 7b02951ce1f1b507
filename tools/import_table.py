"""Print the table that docs/guides/models.md shows: what importers read, count and refuse, as the code has it.

python tools/import_table.py            prints it
python tools/import_table.py --write    writes its file
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable
from pathlib import Path

from workloads.importers import aten
from workloads.importers.onnx_contrib import WRITERS as FUSED
from workloads.importers.onnx_control import WRITERS as FOLLOWED
from workloads.importers.pt2_graph import LOOPS
from workloads.importers.vocabulary import (
    ACTIVATIONS,
    CASTS,
    CONVOLUTIONS,
    ELEMENTWISE,
    GLOBAL_POOLS,
    MOVERS,
    NORMS,
    PARTS,
    POOLS,
    PRODUCTS,
    RECURRENT,
    REDUCTIONS,
    SAME_AS,
    SAMPLERS,
    SOFTMAXES,
    TRANSFORMS,
    VIEWS,
)

TABLE = Path(__file__).parents[1] / "docs" / "reference" / "data" / "operators.csv"


def _cell(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(set(names))) or "-"


def _row(kind: str, counted: str, ops: Iterable[str], calls: Iterable[str] = ()) -> tuple[str, ...]:
    ops = set(ops) | {name for name, (same, _) in SAME_AS.items() if same in ops}
    calls = set(calls) or {name for name, op in aten.OPS.items() if op in ops}
    return kind, counted, _cell(ops), _cell(calls)


def table() -> str:
    """The table, as CSV."""
    parts = VIEWS | PARTS
    products = CONVOLUTIONS | PRODUCTS
    known = {*ELEMENTWISE, *CASTS}
    rows = [
        ("kind of op", "counted as", "`.onnx`", "`.pt2`"),
        _row("products", "multiply-accumulates", products),
        _row("recurrent ops", "multiply-accumulates of all steps", RECURRENT),
        _row("norms, softmax", "vector operations", {*NORMS, *SOFTMAXES}),
        _row("activations, element-wise ops", "vector operations", {*ACTIVATIONS, *known}),
        _row("pooling, sampling", "vector operations", {*POOLS, *GLOBAL_POOLS, *SAMPLERS}),
        _row("Fourier transforms", "vector operations", TRANSFORMS),
        _row("reductions, sorting", "vector operations", REDUCTIONS),
        _row("views and parts", "bytes where they are read", parts),
        _row("movers", "bytes", set(MOVERS) - parts),
        _row(
            "branches, loops, sequences",
            "what is inside",
            FOLLOWED,
            {"cond", "wrap_with_autocast", "wrap_with_set_grad_enabled", *LOOPS},
        ),
        _row("fused and quantised ops", "the ops they stand for", FUSED),
        ("ops that ONNX defines by others", "those", "all that are not above", "-"),
        ("all else", "bytes, or refused", "with the op's name", "with the op's name"),
    ]
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows(rows)
    return written.getvalue()


def main(argv: list[str]) -> int:
    """Print or write the table."""
    if argv != ["--write"]:
        print(table(), end="")
        return 0
    TABLE.write_text(table(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
