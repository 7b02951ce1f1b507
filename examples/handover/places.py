"""Where each tensor lies, from best_mapping.json (its memory) or allocation.json (its memory and its address)."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path


def main(argv: Sequence[str]) -> int:
    document = json.loads(Path(argv[0]).read_text(encoding="utf-8"))
    for op in document.get("mapping", []):
        for head in ("weight", "activation"):
            if head in op:
                print(op["node"], head, op[head])
    for tensor in document.get("tensors", []):
        print(*(tensor[key] for key in ("op", "head", "memory", "offset_bytes", "size_bytes")))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
