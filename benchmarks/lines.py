"""What a benchmark has measured, a line of JSON a case: what is there is not measured again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Lines:
    """The lines of a file; `keys` are the names of what makes a case.

    Attributes:
        all: every line, in order.
    """

    def __init__(self, path: Path, keys: tuple[str, ...]) -> None:
        self._path, self._keys = path, keys
        text = path.read_text() if path.exists() else ""
        self.all: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines()]
        self._known = {tuple(line[key] for key in keys) for line in self.all}

    def __contains__(self, case: tuple[Any, ...]) -> bool:
        return case in self._known

    def add(self, case: tuple[Any, ...], found: Mapping[str, Any]) -> None:
        """Append what was found of a case."""
        line = dict(zip(self._keys, case, strict=True)) | dict(found)
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        self.all.append(line)
        self._known.add(case)
