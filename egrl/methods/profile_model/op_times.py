"""Learns the time of every op, and proposes mappings by local search on what it has learned.

Each batch: the model is fitted anew, from where it was; then local searches run on the most likely model and on models
drawn from its posterior (Thompson sampling), from the best measured mappings and, hotter, from others. Which context
the ops have is asked again whenever there is twice as much data. The learner knows sizes, capacities, and what
the features of a node say; it is told no constant of the chip and never asks the simulator.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egrl.core.archive import Archive
from egrl.methods.profile_model.accesses import Readable, node_features, read_accesses
from egrl.methods.profile_model.contract import ProfileModelConfig
from egrl.methods.profile_model.data import Measured, gather
from egrl.methods.profile_model.local_search import anneal
from egrl.methods.profile_model.model import OpTimes, Parameters, Profiled, Work, draw, fitted, search
from egrl.methods.profile_model.residual import Residual
from hwsim.problem import Floats, Mapping16

LEAST = 12
"""Different mappings with profiles from which it begins to learn."""
MORE = 2.0
STEPS = 8
"""Steps of a fit per batch."""
LEAST_BATCH, GROWTH = 2, 6
"""While there are few data, batches are small: a mapping for so many that were learned from, but at least two."""
PACKED = -1
"""The start is the best mapping with one memory packed anew (`_packed`)."""
Kinds = Sequence[tuple[bool, int, float]]
SEARCHES: Kinds = (
    *((True, 0, 4e-3), (False, 0, 2e-3), (True, 0, 1e-3), (False, 1, 4e-3)),
    *((False, 0, 4e-3), (True, PACKED, 5e-4), (False, 2, 2e-3), (True, PACKED, 1e-4)),
)
"""A batch's searches, in turn: whether the most likely model is searched, rank of the start, first temperature.

All are worth their time after many batches without a gain, too: on ResNet-152 a memory packed anew opened the way to
0.35 % after 127 evaluations, when five batches had found nothing. With searches from the best mapping alone it ended
there, to 400 evaluations.
"""


def kinds_of(kinds: Kinds, count: int, most: int | None, rng: np.random.Generator) -> Kinds:
    """The searches of a thought: `count` of the kinds in turn, or `most` of these, drawn at random."""
    whole = [kinds[k % len(kinds)] for k in range(count)]
    return whole if most is None or most >= count else [whole[k] for k in rng.permutation(count)[:most]]


@dataclass(frozen=True)
class Belief:
    """What a thought believes of op times: the parameters of the model, and the residual's table float64 [A, L]."""

    parameters: Parameters
    table: Floats

    def state_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {"parameters": self.parameters.state_dict(), "table": self.table}


@dataclass(frozen=True)
class Learned:
    """What one fit has learned.

    Attributes:
        data: what it was fitted to.
        residual: as its class says.
        belief: the most likely model, with the residual's mean.
        estimate: float64 [M], log cost of each measured mapping by the measurement and the model together.
    """

    data: Profiled
    residual: Residual
    belief: Belief
    estimate: Floats


class OpTimesModel:
    """Op times as a `egrl.methods.profile_model.contract.ProfileModel`."""

    least = LEAST
    longer = 3.0

    def __init__(self, problem: Readable, config: ProfileModelConfig) -> None:
        self._config = config
        self._parts, self._nodes = problem.parts, len(problem.space.nodes)
        self._accesses = read_accesses(problem)
        self._features = node_features(problem, self._accesses)
        self._model: OpTimes | None = None
        self._unit = self._mean_seconds = 0.0
        self._parameters: Parameters | None = None
        self._searched = 0

    def gather(self, archive: Archive, tickets: NDArray[np.int64]) -> Measured:
        """The times of nodes."""
        return gather(archive, tickets, self._parts, self._nodes)

    def think(
        self, measured: Measured, seen: set[bytes], rng: np.random.Generator, most: int | None = None
    ) -> Generator[None, None, tuple[Mapping16, Floats, Belief]]:
        """The next batch, the expected log cost of what was measured, and what is believed now."""
        learned = yield from self._learn(measured)
        batch = yield from self._propose(measured, learned, seen, rng, most)
        return batch, learned.estimate, learned.belief

    def _learn(self, measured: Measured) -> Generator[None, None, Learned]:
        data = self._profiled(measured.thinned(self._config.most))
        model = self._model
        assert model is not None
        self._parameters = yield from self._fit(model, data)
        p = self._parameters
        left = data.log_seconds - model.log_seconds(p, data.mapping)
        residual = Residual(self._accesses, data.mapping, left, p.noise)
        belief = Belief(p, residual.table())
        return Learned(data, residual, belief, self.estimate(belief, measured))

    def _fit(self, model: OpTimes, data: Profiled) -> Work:
        if self._parameters is None or len(data.mapping) >= MORE * self._searched:
            self._searched = len(data.mapping)
            return (yield from search(model, data, self._parameters))
        return (yield from fitted(model, self._parameters, data, STEPS))

    def _profiled(self, measured: Measured) -> Profiled:
        """The data in units of the first profiles' median op, which also set the priors."""
        if self._model is None:
            self._unit = float(np.nanmedian(measured.log_seconds))
        data = Profiled(measured.mapping, measured.log_seconds - self._unit)
        if self._model is None:
            self._begin(float(np.nanmean(np.exp(data.log_seconds))))
        return data

    def _begin(self, mean_seconds: float) -> None:
        self._mean_seconds = mean_seconds
        self._model = OpTimes(self._accesses, self._features, mean_seconds)

    def estimate(self, belief: Belief, measured: Measured) -> Floats:
        """Log costs [M] by measurements and a model that was believed, weighed by their precisions."""
        if measured.exact:
            return measured.log_cost
        assert self._model is not None
        seconds = self._model.log_seconds(belief.parameters, measured.mapping, belief.table)
        return measured.weighed(np.log(np.exp(seconds).sum(axis=1)))

    def _propose(
        self,
        measured: Measured,
        learned: Learned,
        seen: set[bytes],
        rng: np.random.Generator,
        most: int | None,
    ) -> Generator[None, None, Mapping16]:
        model, p = self._model, self._parameters
        assert model is not None
        assert p is not None
        order = np.argsort(learned.estimate, kind="stable")
        curvature = model.curvature(p, learned.data)
        steps = self._config.steps * len(self._accesses.output)
        found, seen = [], set(seen)
        few = max(LEAST_BATCH, len(learned.data.mapping) // GROWTH)
        for likely, rank, hot in kinds_of(SEARCHES, min(self._config.proposals, few), most, rng):
            yield
            drawn = p if likely else draw(p, curvature, rng)
            table = learned.belief.table if likely else learned.residual.table(rng)
            start = measured.mapping[order[min(max(rank, 0), len(order) - 1)]]
            if rank == PACKED:
                start = _packed(start, len(self._accesses.capacity), rng)
            constants, key = model.constants(drawn, table), int(rng.integers(2**62))
            best, _ = anneal(self._accesses, constants, start, steps=steps, hot=hot, key=key)
            if best.tobytes() not in seen:
                seen.add(best.tobytes())
                found.append(best)
        return np.array(found, np.int16).reshape(-1, *self._accesses.tensor.shape)

    def belief_of(self, state: dict[str, Any]) -> Belief:
        """The inverse of a belief's `state_dict`."""
        return Belief(Parameters.of_state(state["parameters"]), state["table"])

    def metrics(self) -> dict[str, float]:
        """The scale of the noise of op times, as learned; NaN before."""
        return {"profile_model_noise": np.nan if self._parameters is None else self._parameters.noise}

    def state_dict(self) -> dict[str, Any]:
        """All that was learned."""
        parameters = None if self._parameters is None else self._parameters.state_dict()
        return {
            "parameters": parameters,
            "searched": self._searched,
            "unit": self._unit,
            "mean_seconds": self._mean_seconds,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._searched, self._unit, self._model = state["searched"], state["unit"], None
        given = state["parameters"]
        self._parameters = None if given is None else Parameters.of_state(given)
        self._mean_seconds = state["mean_seconds"]
        if self._mean_seconds:
            self._begin(self._mean_seconds)


def _packed(mapping: Mapping16, levels: int, rng: np.random.Generator) -> Mapping16:
    """A mapping [N, H] in which all tensors of a random head want a random faster memory, and no others lie there.

    No chain of small moves leads from a memory full of weights to the same one full of activations.
    """
    head, memory = int(rng.integers(mapping.shape[1])), int(rng.integers(1, levels))
    found = np.where(mapping == memory, memory - 1, mapping)
    found[:, head] = np.where(mapping[:, head] >= 0, memory, -1)
    return found.astype(np.int16)
