"""Writes in place, as values: who reads a tensor after a write to memory that it shares reads what was written.

A *storage* is the memory of a tensor and of all its views, under the name of the tensor that they are views of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from workloads.importers.ir import Node, Shape, Tensor


@dataclass
class Storages:
    """What lies in each storage now.

    Attributes:
        tensors: every tensor by name; values of storages after a write are added.
        append: takes the nodes that read or change a part of a storage.
        written: storage -> the tensor that it holds since the last write.
    """

    tensors: dict[str, Tensor]
    append: Callable[[Node], None]
    written: dict[str, str] = field(default_factory=dict)
    _storage: dict[str, str] = field(default_factory=dict)
    _writes: dict[str, int] = field(default_factory=dict)
    _values: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Tensor -> the number of writes to its storage that it has seen, and the name of its value since then."""

    def share(self, view: str, tensor: str) -> None:
        """`view` is written as a view of `tensor`, as that is now."""
        storage = self._storage[view] = self._storage.get(tensor, tensor)
        self._values[view] = self._writes.get(storage, 0), view

    def origin(self, name: str) -> str:
        """The tensor whose memory `name` shares."""
        return self._storage.get(name, name)

    def holds(self, view: str, tensor: str) -> bool:
        """Whether `view` is all of `tensor`, to which nothing was written."""
        of_it = self.origin(view) == self.origin(tensor)
        return of_it and tensor not in self.written and self._is_whole(view, tensor)

    def value(self, name: str) -> str:
        """The tensor that holds what reading `name` gives now."""
        storage = self._storage.get(name, name)
        writes = self._writes.get(storage, 0)
        seen, value = self._values.get(name, (0, name))
        if seen < writes:
            op = "Reshape" if self._is_whole(name, storage) else "Select"
            value = self._made(f"{name}@{writes}", op, (self.written[storage],), name)
            self._values[name] = self._values[value] = writes, value
        return value

    def write(self, target: str, value: str) -> None:
        """The tensor called `value` is written to `target`, and is a view of its storage from now on."""
        storage = self._storage.get(target, target)
        writes = self._writes.get(storage, 0) + 1
        whole, made = self._is_whole(target, storage), value
        if not whole:
            inputs = self.value(storage), value
            made = self._made(f"{storage}@{writes}", "ScatterElements", inputs, storage)
        elif self._shape(value) != self._shape(storage):
            made = self._made(f"{storage}@{writes}", "Reshape", (value,), storage)
        self._writes[storage], self.written[storage] = writes, made
        self._values[target] = self._values[value] = writes, value
        self._values[storage] = self._values[made] = writes, made
        self._storage[value] = storage

    def _is_whole(self, view: str, storage: str) -> bool:
        shapes = self._shape(view), self._shape(storage)
        return view == storage or (
            None not in shapes and self.tensors[view].elements == self.tensors[storage].elements
        )

    def _shape(self, name: str) -> Shape | None:
        return self.tensors[name].shape

    def _made(self, name: str, op: str, inputs: tuple[str, ...], like: str) -> str:
        self.tensors[name] = Tensor(
            self._shape(like), self.tensors[like].element_bytes, self.tensors[like].is_float
        )
        self._storage[name] = self._storage.get(like, like)
        self.append(Node(name, op, inputs, (name,)))
        return name
