"""The parameters that all ops share, as one vector with a prior: how it becomes the constants of the kernels.

Priors are wide and know only that memories are listed slowest first. Their standard deviations are those of a factor's
logarithm (rates, sizes), or of a share's log odds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from egrl.methods.profile_model.accesses import Accesses
from egrl.methods.profile_model.times import Constants
from hwsim.problem import Floats

FASTEST = -3.0
"""Logarithm of the prior rate (seconds per byte) of the fastest memory over the mean; of the slowest one, +1."""
PRIOR = {
    "rate": (0.0, 2.0),
    "latency": (-4.0, 1.5),
    "cross": (-3.0, 2.0),
    "exposed": (-0.5, 2.0),
    "overhead": (-2.0, 1.5),
    "stay": (-3.0, 2.5),
    "share": (2.5, 1.5),
    "gain": (-1.0, 2.0),
    "room": (0.0, 2.0),
    "free_share": (2.0, 2.0),
    "loss": (-1.0, 1.5),
    "charge": (-1.0, 1.5),
}
"""Mean and standard deviation; rate, gain and room are relative to what the first profiles show (*assumptions*)."""
SHARES = ("exposed", "stay", "share", "free_share")
"""Theta has the log odds of these; of the others the logarithm."""
OF_CONTEXT = ("share", "gain", "room", "free_share", "loss", "charge")
ROOM = 200
"""The prior room is the bytes of all accesses over so many."""


@dataclass(frozen=True)
class ContextShape:
    """Tensors that are fetched ahead: of one role, from one memory, into the free part of another (-1: none)."""

    role: int
    memory: int
    into: int


NO_CONTEXT = ContextShape(-1, -1, -1)
SLOWER = 0.5
"""See `Layout.started`; a logarithm."""


class Layout:
    """Where each group of parameters lies in the vector theta float64 [P].

    Attributes:
        mean, spread: float64 [P], the prior.
        begins: int64 [12], where each group begins.
    """

    def __init__(self, accesses: Accesses, mean_seconds: float) -> None:
        """`mean_seconds` of an op, in units of the median one."""
        self.roles, self.levels = int(accesses.role.max()) + 1, len(accesses.capacity)
        self._accesses = accesses
        groups = int(accesses.group.max()) + 1
        many = {
            "rate": self.roles * self.levels,
            "cross": self.levels**2,
            "exposed": self.levels + 1,
            "stay": groups,
            **dict.fromkeys(("latency", "loss", "charge"), self.levels),
        }
        lengths = [many.get(name, 1) for name in PRIOR]
        ends = np.cumsum(lengths).tolist()
        self._at = {
            name: slice(end - length, end) for name, end, length in zip(PRIOR, ends, lengths, strict=True)
        }
        self.begins = np.array([at.start for at in self._at.values()], np.int64)
        self.size = ends[-1]
        self.mean, self.spread = (np.repeat([prior[k] for prior in PRIOR.values()], lengths) for k in (0, 1))
        per_byte = float(np.log(mean_seconds * len(accesses.output) / accesses.size.sum()))
        self.mean[self._at["rate"]] = np.tile(per_byte + np.linspace(1.0, FASTEST, self.levels), self.roles)
        self.mean[self._at["gain"]] -= per_byte
        self.mean[self._at["room"]] += np.log(accesses.size.sum() / ROOM)

    def active(self, shape: ContextShape, groups: tuple[str, ...] = ()) -> NDArray[np.int64]:
        """Positions of the parameters, of some groups or all, that matter with a context of this shape, ascending."""
        used = np.ones(self.size, np.bool_)
        used[self._at["cross"]] = ~np.eye(self.levels, dtype=np.bool_).reshape(-1)
        if shape == NO_CONTEXT:
            for name in OF_CONTEXT:
                used[self._at[name]] = False
        elif shape.into < 0:
            used[self._at["free_share"]] = False
        if groups:
            for name in PRIOR.keys() - set(groups):
                used[self._at[name]] = False
        return np.flatnonzero(used)

    def started(self, theta: Floats, shape: ContextShape) -> Floats:
        """Theta float64 [P] from which a context of this shape is learned.

        It gains bytes a little more slowly than they can be read from where they lie. If it began with more, the bucket
        would always be full, and no derivative would say so.
        """
        found = theta.copy()
        if shape != NO_CONTEXT:
            rate = theta[self._at["rate"]].reshape(self.roles, self.levels)[shape.role, shape.memory]
            found[self._at["gain"]] = -rate - SLOWER
        return found

    def constants(
        self, theta: Floats, shape: ContextShape, work: Floats, traffic: Floats, delta: Floats
    ) -> Constants:
        """For the kernels; `work` float64 [N] and `traffic` float64 [A] are logarithms, `delta` float64 [A, L]."""
        value = {name: theta[at] for name, at in self._at.items()}
        rate = np.exp(value["rate"]).reshape(self.roles, self.levels)
        base = np.exp(value["rate"].reshape(self.roles, self.levels).mean(axis=0))
        cross = np.exp(value["cross"]).reshape(self.levels, self.levels) * base
        np.fill_diagonal(cross, 0.0)
        return Constants(
            rate=rate,
            latency=np.exp(value["latency"]),
            cross=cross,
            exposed=_share(value["exposed"]),
            overhead=float(np.exp(value["overhead"][0])),
            stay=_share(value["stay"]),
            work=np.exp(work),
            traffic=np.exp(traffic),
            delta=delta,
            role=shape.role,
            memory=shape.memory,
            into=shape.into,
            share=float(_share(value["share"])[0]),
            gain=float(np.exp(value["gain"][0])),
            room=float(np.exp(value["room"][0])),
            free_share=float(_share(value["free_share"])[0]),
            loss=np.exp(value["loss"]),
            charge=np.exp(value["charge"]) * base,
        )

    def slopes(self, constants: Constants) -> Floats:
        """Derivatives of the constants that ops share by theta, float64 [P, P], both in the order of theta."""
        found = np.zeros((self.size, self.size))
        for name, at in self._at.items():
            value = np.atleast_1d(np.asarray(getattr(constants, name), np.float64)).reshape(-1)
            place = np.arange(at.start, at.stop)
            found[place, place] = value * (1.0 - value) if name in SHARES else value
        # `cross` and `charge` are relative to the mean logarithm of a memory's rates, over roles.
        rates = np.arange(self.roles * self.levels).reshape(self.roles, self.levels)
        for m in range(self.levels):
            found[np.ix_(np.arange(self.size)[self._at["cross"]][m :: self.levels], rates[:, m])] = (
                constants.cross[:, m, None] / self.roles
            )
            found[self._at["charge"].start + m, rates[:, m]] = constants.charge[m] / self.roles
        return found

    def shapes(self) -> list[ContextShape]:
        """Every shape of a context: any role, any memory but the fastest, kept in another memory or in none."""
        return [
            ContextShape(role, memory, into)
            for role in range(self.roles)
            for memory in range(self.levels - 1)
            for into in range(-1, self.levels)
            if into != memory
        ]


def _share(log_odds: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-log_odds)))
