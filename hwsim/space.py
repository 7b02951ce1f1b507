"""The decisions of a problem: nodes, heads, and the choices of each decision.

Shapes: B mappings, N nodes, H heads (decisions per node), at most C choices per decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from hwsim.pins import Pins
    from hwsim.stages import Pipeline

UNUSED = -1


@dataclass(frozen=True, eq=False, init=False)
class Space:
    """The decisions of a problem. Only `nodes`, `heads` and `num_choices` must be given.

    Attributes:
        nodes: N different names.
        heads: H different names.
        num_choices: int16 [N, H]; the choices of a decision are 0 to num_choices - 1.
        labels: for each head the names of its choices, slowest first if they differ in speed; default: "0", "1", ….
        size_bytes: int64 [N, H], bytes that a decision places. If it is 0 the decision is dead, and -1 in canonical
            mappings. Default: 1 everywhere.
        choice_rank: float32 [H, C], the rank of each choice in speed, scaled to 0..1; default: even steps.
        initial: int16 [N, H], the canonical mapping that an episode begins with; default: 0 for live decisions.
        pipeline: if the choices are stages of a pipeline, that pipeline; else None.
        pins: decisions that have one choice whatever is proposed, or that of another decision; None: all are free.
    """

    nodes: tuple[str, ...]
    heads: tuple[str, ...]
    num_choices: NDArray[np.int16]
    labels: tuple[tuple[str, ...], ...]
    size_bytes: NDArray[np.int64]
    choice_rank: NDArray[np.float32]
    initial: NDArray[np.int16]
    pipeline: Pipeline | None
    pins: Pins | None

    def __init__(
        self,
        nodes: Sequence[str],
        heads: Sequence[str],
        num_choices: NDArray[np.int16],
        labels: Sequence[Sequence[str]] | None = None,
        size_bytes: NDArray[np.int64] | None = None,
        choice_rank: NDArray[np.float32] | None = None,
        initial: NDArray[np.int16] | None = None,
        pipeline: Pipeline | None = None,
        pins: Pins | None = None,
    ) -> None:
        """Fill in the defaults, and check that all fields fit together.

        Raises:
            ValueError: a name occurs twice, a shape or dtype is wrong, or a number is out of range.
        """
        most = int(num_choices.max(initial=0))
        names = tuple(str(choice) for choice in range(most))
        ranks = np.linspace(0, 1, most, dtype=np.float32)
        fields: dict[str, Any] = {
            "nodes": tuple(nodes),
            "heads": tuple(heads),
            "num_choices": num_choices,
            "labels": (names,) * len(heads) if labels is None else tuple(map(tuple, labels)),
            "size_bytes": np.ones(num_choices.shape, np.int64) if size_bytes is None else size_bytes,
            "choice_rank": np.tile(ranks, (len(heads), 1)) if choice_rank is None else choice_rank,
            "pipeline": pipeline,
            "pins": pins,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        self._check_names()
        self._check_array("num_choices", np.int16, self.shape)
        self._check_array("size_bytes", np.int64, self.shape)
        self._check_array("choice_rank", np.float32, (len(self.heads), most))
        self._check_numbers()
        first = self.canonical(np.zeros(self.shape, np.int16)) if initial is None else initial
        object.__setattr__(self, "initial", first)
        self._check_array("initial", np.int16, self.shape)
        if ((first < UNUSED) | (first >= self.num_choices) | ((first >= 0) & ~self.live)).any():
            raise ValueError("initial: expected choices of live decisions or -1, received another number")

    def _check_names(self) -> None:
        for what, names in (("nodes", self.nodes), ("heads", self.heads)):
            if not names or len(set(names)) != len(names):
                raise ValueError(f"{what}: expected one name or more, each another, received {len(names)}")
        if len(self.labels) != len(self.heads):
            raise ValueError(f"labels: expected {len(self.heads)} heads, received {len(self.labels)}")

    def _check_array(self, name: str, dtype: type, shape: tuple[int, ...]) -> None:
        array = getattr(self, name)
        if not isinstance(array, np.ndarray) or array.dtype != dtype or array.shape != shape:
            raise ValueError(
                f"{name}: expected {np.dtype(dtype)} of shape {shape}, received {_describe(array)}"
            )

    def _check_numbers(self) -> None:
        if (self.size_bytes < 0).any():
            raise ValueError("size_bytes: expected 0 or more, received less")
        if (self.num_choices < self.live).any():
            raise ValueError("num_choices: expected at least 1 where size_bytes is above 0, received less")
        for head, names, most in zip(self.heads, self.labels, self.num_choices.max(axis=0), strict=True):
            if len(names) < most:
                raise ValueError(f"labels: expected at least {most} of {head}, received {len(names)}")
        if not ((self.choice_rank >= 0) & (self.choice_rank <= 1)).all():
            raise ValueError("choice_rank: expected numbers in 0..1, received others")

    @property
    def shape(self) -> tuple[int, int]:
        """(N, H)."""
        return len(self.nodes), len(self.heads)

    @cached_property
    def live(self) -> NDArray[np.bool_]:
        """bool [N, H]: True for decisions that are not dead."""
        return self.size_bytes > 0

    @cached_property
    def most_choices(self) -> int:
        """C, the largest number of choices of any decision."""
        return int(self.num_choices.max())

    def canonical(self, mapping: NDArray[np.int16]) -> NDArray[np.int16]:
        """A copy of mappings int16 [N, H] or [B, N, H] in which every dead decision is -1, and pins are kept."""
        live = np.where(self.live, mapping, np.int16(UNUSED)).astype(np.int16, copy=False)
        return live if self.pins is None else self.pins.kept(live)

    def check(self, mapping: NDArray[np.int16], key: NDArray[np.uint64]) -> None:
        """Check mappings [B, N, H] and their keys [B].

        A live decision must hold one of its choices; a dead one may hold anything.

        Raises:
            ValueError: a shape, a dtype or a choice number is wrong.
        """
        nodes, heads = self.shape
        if (
            not isinstance(mapping, np.ndarray)
            or mapping.dtype != np.int16
            or mapping.ndim != 3
            or mapping.shape[1:] != (nodes, heads)
        ):
            raise ValueError(
                f"mapping: expected int16 of shape (B, {nodes}, {heads}), received {_describe(mapping)}"
            )
        check_keys(key, len(mapping))
        wrong = ((mapping < 0) | (mapping >= self.num_choices)) & self.live
        if wrong.any():
            b, n, h = (int(v[0]) for v in np.nonzero(wrong))
            raise ValueError(
                f"mapping[{b}, {n}, {h}] ({self.heads[h]} of {self.nodes[n]}): expected a choice in "
                f"0..{int(self.num_choices[n, h]) - 1} (closed), received {int(mapping[b, n, h])}"
            )


def check_keys(key: NDArray[np.uint64], rows: int) -> None:
    """Raise ValueError unless key is uint64 [rows]."""
    if not isinstance(key, np.ndarray) or key.dtype != np.uint64 or key.shape != (rows,):
        raise ValueError(f"key: expected uint64 of shape ({rows},), received {_describe(key)}")


def _describe(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} of shape {value.shape}"
    return type(value).__name__
