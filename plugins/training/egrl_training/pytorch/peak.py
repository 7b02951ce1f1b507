"""The peak of memory while something runs, as the allocator of PyTorch sees it."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile


def peak_of(run: Callable[[], Any], device: torch.device) -> int:
    """Bytes that are allocated at most while `run` runs, beyond what was allocated before.

    On a CPU these are the events of the profiler, on a GPU the allocator's own maximum.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        result = run()
        torch.cuda.synchronize(device)
        del result
        return int(torch.cuda.max_memory_allocated(device)) - before
    profiled = profile(activities=[ProfilerActivity.CPU], profile_memory=True)
    with _silent():
        profiled.start()
    try:
        result = run()
        del result
    finally:
        with _silent():
            profiled.stop()
    return max(curve_of(profiled), default=0)


CUDA_BLOCK = 512
"""Bytes of which the allocator of a GPU gives whole multiples."""


def given_bytes(size_bytes: int, device: torch.device) -> int:
    """What an allocator gives for so many bytes."""
    block = CUDA_BLOCK if device.type == "cuda" else 1
    return -(-size_bytes // block) * block


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Without what the profiler writes to stderr whenever it starts and stops."""
    with warnings.catch_warnings(), open(os.devnull, "wb") as nowhere:
        warnings.simplefilter("ignore")
        kept = os.dup(2)
        try:
            os.dup2(nowhere.fileno(), 2)
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def curve_of(profiled: profile) -> list[int]:
    """Bytes allocated on the CPU beyond the start, after each event of a profile, in order of time."""
    results: Any = profiled.profiler.kineto_results  # type: ignore[union-attr]
    events = [
        (event.start_ns(), event.nbytes())
        for event in results.events()
        if event.name() == "[memory]" and str(event.device_type()).endswith("CPU")
    ]
    curve, total = [], 0
    for _, size in sorted(events, key=lambda pair: pair[0]):
        total += size
        curve.append(total)
    return curve
