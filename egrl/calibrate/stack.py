"""Families of several networks on one board as one: what belongs to the board is one parameter for all of them.

A row of a stack is int16 [1 + N, H]: the number of the network, then its mapping, then -1 up to the longest network.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from hwsim.family import Effects, Learnable, Model, Parameter
from hwsim.problem import Floats, Mapping16


class Stack(Learnable):
    """See `hwsim.family.Learnable`.

    Attributes:
        parameters: those of the board first; then each network's own, network by network.
        network: int64 [P], the network that a parameter belongs to; -1: the board.
        effects: those that may be flipped.
        nominal: those of the description.
    """

    parameters: Sequence[Parameter] = ()
    effects: Sequence[str] = ()
    nominal: Effects = frozenset()

    def __init__(
        self,
        families: Sequence[Learnable],
        shapes: Sequence[tuple[int, ...]],
        effects: Sequence[str] | None = None,
    ) -> None:
        """`families` are of one board, with mappings of these shapes (N, H); `effects` are a choice of theirs [all]."""
        self._families, self._nodes = families, [shape[0] for shape in shapes]
        empty = (np.full((1, *shape), -1, np.int16) for shape in shapes)
        sizes = [family.places(mapping).shape[1] for family, mapping in zip(families, empty, strict=True)]
        self._place = np.concatenate([[0], np.cumsum(sizes)]).tolist()
        self.effects = tuple(families[0].effects if effects is None else effects)
        self.nominal = families[0].nominal
        shared = {p.name: p for family in families for p in family.parameters if p.shared}
        parameters: list[Parameter] = list(shared.values())
        network = [-1] * len(shared)
        position = {name: number for number, name in enumerate(shared)}
        self._columns: list[NDArray[np.int64]] = []
        for number, family in enumerate(families):
            columns = []
            for parameter in family.parameters:
                columns.append(position[parameter.name] if parameter.shared else len(parameters))
                if not parameter.shared:
                    parameters.append(parameter)
                    network.append(number)
            self._columns.append(np.array(columns, np.int64))
        self.parameters = tuple(parameters)
        self.network: NDArray[np.int64] = np.array(network, np.int64)

    def rows(self, mappings: Sequence[Mapping16]) -> Mapping16:
        """Rows int16 [M, 1 + N, H] of each network's mappings [M_k, N_k, H], network by network."""
        longest = max(self._nodes)
        blocks = []
        for number, mapping in enumerate(mappings):
            block = np.full((len(mapping), 1 + longest, mapping.shape[2]), -1, np.int16)
            block[:, 0] = number
            block[:, 1 : 1 + mapping.shape[1]] = mapping
            blocks.append(block)
        return np.concatenate(blocks)

    def _blocks(self, rows: Mapping16) -> Iterator[tuple[int, NDArray[np.int64], Mapping16]]:
        """Number, positions and mappings of each network that has rows."""
        for number, nodes in enumerate(self._nodes):
            at = np.flatnonzero(rows[:, 0, 0] == number)
            if len(at):
                yield number, at, np.ascontiguousarray(rows[at, 1 : 1 + nodes])

    def gradient(self, model: Model, mapping: Mapping16) -> tuple[Floats, Floats]:
        """Costs float64 [B] without the residual, and d log cost / d theta, float64 [B, P]."""
        cost, slope = np.empty(len(mapping)), np.zeros((len(mapping), len(self.parameters)))
        for number, at, own in self._blocks(mapping):
            columns = self._columns[number]
            found = self._families[number].gradient(self.part(number, model), own)
            cost[at], slope[np.ix_(at, columns)] = found
        return cost, slope

    def places(self, mapping: Mapping16) -> Floats:
        """float64 [B, F], those of each network beside the others'."""
        found = np.zeros((len(mapping), self._place[-1]))
        for number, at, own in self._blocks(mapping):
            found[at, self._place[number] : self._place[number + 1]] = self._families[number].places(own)
        return found

    def distance(self, one: Mapping16, other: Mapping16) -> Floats:
        """float64 [A, B]; mappings of different networks have nothing in common."""
        distance = np.ones((len(one), len(other)))
        others = {number: (at, own) for number, at, own in self._blocks(other)}
        for number, at, own in self._blocks(one):
            if number in others:
                to, rows = others[number]
                distance[np.ix_(at, to)] = self._families[number].distance(own, rows)
        return distance

    def part(self, number: int, model: Model) -> Model:
        """A model of the stack, without its residual, as one network's own family has it."""
        return Model(model.effects, model.theta[self._columns[number]])
