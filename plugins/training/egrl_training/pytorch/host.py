"""Ops that keep a tensor in the memory of the host: copied there, waited for, copied back, waited for.

Source: `torch/_functorch/_activation_offloading/offload_ops.py` (`ao.offload`, `ao.reload`, `ao.wait_tensor`): the same
four ops, and events by the address of what is copied.

Deviations: one stream per direction instead of one for both; whole storages are copied, so that tensors with any
strides come back as they were; a wait frees nothing by itself, it is only the last op that holds the tensor. On a CPU,
where there is no other memory, the host's is what PyTorch's allocator does not see, and copies are done at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.fx import has_side_effect

COPY_LAUNCH_S = 2e-4
"""What a GPU copies in less time is not worth a copy: launching it keeps the processor, and ops wait for that. Measured
beside an H200, with PyTorch's profiler on: 0.27 ms per copy to the host, 0.17 ms per copy back."""
_new_library: Any = torch.library.Library
_LIBRARY = _new_library("egrl", "DEF")
_LIBRARY.define("to_host(Tensor tensor) -> Tensor")
_LIBRARY.define("left(Tensor tensor, Tensor on_host) -> ()")
_LIBRARY.define("from_host(Tensor on_host, Device device) -> Tensor")
_LIBRARY.define("arrived(Tensor tensor) -> ()")

_STREAMS: dict[tuple[torch.device, str], Any] = {}
"""Of each GPU and direction the stream that copies."""
_COPIED: dict[int, Any] = {}
"""The events that end the copies that nothing has waited for, by the address of what is copied to."""


def room(size_bytes: int, device: torch.device) -> torch.Tensor:
    """uint8 [size_bytes] in the host's memory, for copies from and to a device: pinned if that is a GPU."""
    if device.type == "cuda":
        return torch.empty(size_bytes, dtype=torch.uint8, pin_memory=True)
    return torch.from_numpy(np.empty(size_bytes, np.uint8))


def _to_host(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor like the given one in the host's memory, with all of its storage; on a GPU it is still being copied."""
    bytes_here = _bytes_of(tensor)
    there = room(len(bytes_here), tensor.device)
    _copy(there, bytes_here, tensor.device, "to")
    return _like(tensor, there)


def _from_host(on_host: torch.Tensor, device: torch.device) -> torch.Tensor:
    """What `to_host` made of a tensor, on a device again; on a GPU it is still being copied."""
    bytes_there = _bytes_of(on_host)
    # made on the stream of the ops, to which its memory goes back
    here = torch.empty(len(bytes_there), dtype=torch.uint8, device=device)
    _copy(here, bytes_there, torch.device(device), "from")
    return _like(on_host, here)


def _left(tensor: torch.Tensor, on_host: torch.Tensor) -> None:
    """Wait until a tensor is on the host. Ops that begin after this may use its memory, once nobody holds it."""
    _wait(on_host, tensor.device)


def _arrived(tensor: torch.Tensor) -> None:
    """Wait until a tensor has come from the host."""
    _wait(tensor, tensor.device)


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """uint8 [B], the storage of a tensor."""
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())


def _like(tensor: torch.Tensor, storage: torch.Tensor) -> torch.Tensor:
    """The tensor that looks at another storage as the given one looks at its own."""
    empty = torch.empty(0, dtype=tensor.dtype, device=storage.device)
    return empty.set_(storage.untyped_storage(), tensor.storage_offset(), tensor.shape, tensor.stride())


def _copy(target: torch.Tensor, source: torch.Tensor, device: torch.device, direction: str) -> None:
    if device.type != "cuda":
        target.copy_(source)
        return
    if (device, direction) not in _STREAMS:
        make_stream: Any = torch.cuda.Stream
        _STREAMS[device, direction] = make_stream(device)
    make_event: Any = torch.cuda.Event
    stream, event = _STREAMS[device, direction], make_event()
    # The source is written, or the memory of the target is free, when all that was given to the device so far is done.
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        target.copy_(source, non_blocking=True)
        event.record(stream)
    _COPIED[target.data_ptr()] = event


def _wait(copied: torch.Tensor, device: torch.device) -> None:
    event = _COPIED.pop(copied.untyped_storage().data_ptr(), None)
    if event is not None:
        torch.cuda.current_stream(device).wait_event(event)


def on_host(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of the shape and strides of what `to_host` returns; of a tensor without data another without."""
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")


_KEY = "CompositeExplicitAutograd"
_LIBRARY.impl("to_host", _to_host, _KEY)
_LIBRARY.impl("from_host", _from_host, _KEY)
_LIBRARY.impl("left", _left, _KEY)
_LIBRARY.impl("arrived", _arrived, _KEY)
OPS: Any = torch.ops.egrl
TO_HOST, FROM_HOST, LEFT, ARRIVED = (
    getattr(OPS, name).default for name in ("to_host", "from_host", "left", "arrived")
)
for _op in (TO_HOST, FROM_HOST, LEFT, ARRIVED):
    has_side_effect(_op)  # their places say when copies are made
