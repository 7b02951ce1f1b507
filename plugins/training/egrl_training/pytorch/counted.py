"""Bytes that code allocates when it runs on tensors without data, counted by their storages."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves

from egrl_training.pytorch.peak import given_bytes


class Counted(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of the storages that ops make, until nothing holds them.

    Attributes:
        now: bytes that are held.
        most: the most so far, with what ops take while they run.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = self.most = 0
        self._known: weakref.WeakSet[torch.UntypedStorage] = weakref.WeakSet()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        before, kwargs = self.now, kwargs or {}
        result = self.run(func, args, kwargs)
        for tensor in (part for each in tensors_of(result) for part in plain_of(each)):
            self._add(tensor.untyped_storage(), tensor.device)
        self.most = max(self.most, self.now, before + self.within_bytes(func, args, kwargs, result))
        return result

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """What an op returns."""
        return func(*args, **kwargs)

    def within_bytes(self, func: Any, args: Any, kwargs: Any, result: Any) -> int:
        """What an op takes at most while it runs, beside its inputs; 0: no more than what it returns."""
        return 0

    def ignore(self, tensors: Iterable[Any]) -> None:
        """Never count these."""
        for tensor in (part for each in tensors_of(tensors) for part in plain_of(each)):
            self._known.add(tensor.untyped_storage())

    def _add(self, storage: torch.UntypedStorage, device: torch.device) -> None:
        if storage not in self._known:
            self._known.add(storage)
            size = given_bytes(storage.nbytes(), device)  # of a tensor without data the storage says "meta"
            self.now += size
            weakref.finalize(storage, self._free, size)

    def _free(self, size: int) -> None:
        self.now -= size


def tensors_of(tree: Any) -> list[torch.Tensor]:
    """The tensors of a tree of lists, tuples and dictionaries."""
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def plain_of(given: Any) -> Iterator[torch.Tensor]:
    """The tensors with a storage that a tensor consists of; none of what is sparse, or no tensor."""
    if not isinstance(given, torch.Tensor):
        return
    if is_traceable_wrapper_subclass(given):
        for name in given.__tensor_flatten__()[0]:
            yield from plain_of(getattr(given, name))
    elif given.layout is torch.strided and not torch.nn.parameter.is_lazy(given):
        yield given
