"""Where each tensor lies, from best_mapping.json (its memory) or allocation.json (its memory and its address)."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any


def rows(document: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    for op in document.get("mapping", []):
        for head in ("weight", "activation"):
            if head in op:
                yield op["node"], head, op[head]
    for tensor in document.get("tensors", []):
        yield tuple(tensor[key] for key in ("op", "head", "memory", "offset_bytes", "size_bytes"))


def refuse(file: str, why: str | None) -> int:
    print(f"places: {file}: expected best_mapping.json or allocation.json, found {why}", file=sys.stderr)
    return 2


def main(argv: Sequence[str]) -> int:
    if len(argv) != 1:
        return refuse("FILE", "several" if argv else "none")
    try:
        found = list(rows(json.loads(Path(argv[0]).read_text(encoding="utf-8"))))
    except OSError as error:
        return refuse(argv[0], error.strerror)
    except (AttributeError, KeyError, TypeError, ValueError):  # no JSON, or another document
        found = []
    for row in found:
        print(*row)
    return 0 if found else refuse(argv[0], "no tensor")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
