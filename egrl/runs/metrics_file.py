"""metrics.csv: a row a generation, under a header that never changes."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from egrl.core import atomic


def append(path: Path, row: Mapping[str, Any]) -> None:
    """Add a row; the first one brings the header.

    Raises RunFailure where the disk refuses, ValueError where a row has other names than the header.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    try:
        with open(path, "a+b") as stream:
            if stream.tell() == 0:
                writer.writerow(row.keys())
            else:
                stream.seek(0)
                names = next(csv.reader([stream.readline().decode()]))
                if list(row) != names:
                    raise ValueError(f"metrics: expected {', '.join(names)}, received {', '.join(row)}")
            writer.writerow([_cell(value) for value in row.values()])
            stream.write(buffer.getvalue().encode())
    except OSError as error:
        raise atomic.disk_failure(path, error) from error


def _cell(value: Any) -> Any:
    return repr(float(value)) if isinstance(value, float | np.floating) else value
