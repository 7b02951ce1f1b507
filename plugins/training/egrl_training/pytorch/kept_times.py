"""Timings of ops on disk, so that planning again does not time again: `op-times` in the user's cache folder.

One file for each version of PyTorch, number of threads, processor and GPU: what was timed with another is not seen.
Like all of the cache it is there to save time only. If it cannot be read it is made again, if it cannot be written it
is not kept, and it may be deleted at any time: after a busy moment of the machine, say.

Under the same conditions one process at a time measures: two would slow each other down, and what the first one
measured the second one reads.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import platform
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

import torch
from filelock import FileLock

from egrl.core import atomic
from egrl_training.pytorch.timing import Timing
from workloads.errors import InputError
from workloads.files import cache_folder, read_text

VERSION = 3
"""Goes up when ops are timed in another way."""
MOST_BYTES = 1 << 26
"""A larger file is begun anew."""


def conditions() -> list[object]:
    """What timings hold for, beside op, shapes, types and device."""
    processor = platform.processor() or platform.machine()
    gpus = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    capability = torch.backends.cpu.get_cpu_capability()
    return [VERSION, torch.__version__, torch.get_num_threads(), platform.node(), processor, capability, gpus]


def file() -> Path:
    """Where timings under the present conditions are kept. FileNotFoundError if there is no home folder."""
    name = hashlib.sha256(json.dumps(conditions()).encode()).hexdigest()[:32]
    return cache_folder() / "op-times" / f"{name}.json"


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """While this is held, no other process measures under the same conditions; without a cache nothing is held.

    A process that holds it may take it again.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError, NotImplementedError):  # no folder, or one without locks
            lock = file().with_suffix(".lock")
            lock.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(FileLock(lock, is_singleton=True))
        yield


def read() -> dict[str, Timing]:
    """The timings that are kept; none if they cannot be read."""
    try:
        rows = json.loads(read_text(file(), "timings of ops", MOST_BYTES))
        return {key: _timing(row) for key, row in rows.items()}
    except (OSError, InputError, ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return {}


def _timing(row: Mapping[str, object]) -> Timing:
    """ValueError, TypeError or KeyError if it is none."""
    seconds, peak, held = row["seconds"], row["peak_bytes"], row["held_bytes"]
    if not isinstance(seconds, float) or not isinstance(peak, int) or not isinstance(held, list):
        raise TypeError("expected seconds and bytes")
    if (
        not 0 <= seconds < math.inf
        or peak < 0
        or not all(isinstance(size, int) and size >= 0 for size in held)
    ):
        raise ValueError("expected seconds and bytes of at least 0")
    return Timing(seconds, peak, tuple(held))


def write(known: Mapping[str, Timing]) -> None:
    """Keep these timings with those that are kept; not those that were estimated."""
    rows = {key: asdict(timing) for key, timing in (read() | dict(known)).items() if not timing.estimated}
    try:
        target = file()
        target.parent.mkdir(parents=True, exist_ok=True)
        atomic.write(target, json.dumps(rows))
    except OSError:
        return
