"""What to measure next: mappings that a model of the board likes, far from what was measured and near to it.

Each batch has mappings from three sources. `mode`: local search on the most likely model, from the best measured
mappings. `sample`: the same on models drawn from the posterior (Thompson sampling). `near`: local moves on the best
measured mappings, those that the posterior, all its doubts counted, finds most promising. What each source earns
decides how many it gets; each has at least one.

Source: Thompson 1933; trust regions around the best as in TuRBO (Eriksson et al., NeurIPS 2019), with moves instead of
boxes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge, Gt
from numpy.typing import NDArray
from typing_extensions import Doc

from egrl.methods.manager import Credit
from egrl.methods.twin.data import closeness, gather
from egrl.methods.twin.inference import Beliefs, Posterior, Scales, fit
from hwsim.family import Family, Limits, Model
from hwsim.mappings import repair
from hwsim.problem import Floats, Mapping16, Problem
from population.moves import Moves

MODE, SAMPLE, NEAR = "mode", "sample", "near"
SOURCES = (MODE, SAMPLE, NEAR)
TOP = 5
"""A mapping that is among so many of the best by the posterior counts as a success of its source."""
DEEPER = 4
"""With profiles the model is known so well that local searches of so many times the steps pay."""
PARENTS = 6
FAILING = 0.05
"""What failed raises the log cost that `near` expects right beside it by so much, at the least."""
LEAST_CHANCE = 1e-3
HOT = (2e-3, 5e-3, 1e-3)
"""First temperatures of local searches, in turn."""


@dataclass(frozen=True)
class TwinConfig:
    """Settings of the twin.

    Example:
        >>> import egrl
        >>> from egrl.methods.twin.proposer import TwinConfig
        >>> result = egrl.search("alexnet", method=TwinConfig(batch=4), evals=20)
        >>> result.speedup >= 1.0
        True
    """

    batch: Annotated[int, Ge(3), Doc("mappings per batch")] = 8
    first: Annotated[
        int,
        Ge(0),
        Doc(
            "mappings measured first, at least: the problem's rules, what the nominal model prefers,"
            " changes of those"
        ),
    ] = 20
    steps: Annotated[int, Ge(1), Doc("steps of each local search on a model")] = 6000
    profiles: Annotated[bool, Doc("if true, the inference uses the profiles that a board gives")] = True
    candidates: Annotated[int, Ge(1), Doc("changes of the best mappings from which a batch is chosen")] = 1500
    most: Annotated[
        int,
        Ge(16),
        Doc("measurements that the inference uses; of more, the best half and an even choice of the others"),
    ] = 400
    reach: Annotated[
        float, Gt(0), Doc("mean rank of the measured mapping that a local search begins with")
    ] = 2.0


class Proposer:
    """Chooses what to measure next on one problem; data come from whoever asks."""

    def __init__(self, problem: Problem, family: Family, config: TwinConfig, moves: Moves) -> None:
        self._problem, self._family, self._config, self._moves = problem, family, config, moves
        self.beliefs = Beliefs((family.nominal,))
        self.credit = Credit.fresh(SOURCES)
        self.posterior: Posterior | None = None
        self._limits: Limits | None = None

    def nominal(self) -> Model:
        """The description itself."""
        return Model(self._family.nominal, np.zeros(len(self._family.parameters)))

    def learn(
        self,
        mapping: Mapping16,
        cost: Floats,
        failed: Mapping16,
        noise: float | None,
        parts: Floats | None = None,
    ) -> Iterator[None]:
        """Fit the family to different mappings [M, N, H] with their costs [M], M >= 2, and to others that failed.

        `noise` is as `Inference` has it; `parts` float64 [M, Q] are their profiles, NaN where nothing is known.
        """
        self._limits = self._family.limits(mapping, failed)
        if self._limits is not None:
            yield None
        data = gather(self._family, mapping, cost, self._config.most, parts)
        for posterior in fit(self._family, data, self.beliefs, noise):
            self.posterior = posterior
            yield None

    def propose(
        self,
        mapping: Mapping16,
        seen: set[bytes],
        failed: Mapping16,
        count: int,
        rng: np.random.Generator,
    ) -> Iterator[tuple[Mapping16, list[str]] | None]:
        """`count` new mappings [count, N, H] with their sources, at the end; None in between.

        Args:
            mapping: int16 [M, N, H], what was measured at least cost.
            seen: what need not be proposed again, as bytes; what is proposed joins it.
            failed: int16 [F, N, H], what could not be measured.
            count: how many.
            rng: for all that is random.
        """
        posterior = self.posterior
        assert posterior is not None
        order = np.argsort(posterior.predict(mapping)[0], kind="stable")
        yield None
        sources = self._sources(count, rng)
        found: list[tuple[str, Mapping16]] = []
        for part in self._search(posterior, mapping[order], sources, rng):
            found += part
            yield None
        wanted = sources.count(NEAR) + len(found) - len({m.tobytes() for _, m in found} - seen)
        near = self._near(posterior, mapping[order[:PARENTS]], seen, failed, wanted, rng)
        chosen: list[tuple[str, Mapping16]] = []
        for source, one in [*found, *((NEAR, one) for one in near)]:
            if one.tobytes() not in seen and len(chosen) < count:
                seen.add(one.tobytes())
                chosen.append((source, one))
        while len(chosen) < count:  # a space so small that little is left: what was measured comes again
            again = self._changed(mapping[order[0]], rng)
            chosen.append((NEAR, again))
        yield np.stack([one for _, one in chosen]), [source for source, _ in chosen]

    def _sources(self, count: int, rng: np.random.Generator) -> list[str]:
        """One of each, and the rest by what they earned."""
        more = rng.choice(len(SOURCES), max(0, count - len(SOURCES)), p=self.credit.shares())
        return [*SOURCES, *(SOURCES[k] for k in more)][:count]

    def _search(
        self, posterior: Posterior, best: Mapping16, sources: list[str], rng: np.random.Generator
    ) -> Iterator[list[tuple[str, Mapping16]]]:
        """Local searches on models, from `best` [M, N, H], two at a time; what they found."""
        jobs: list[tuple[str, Model, Mapping16, float, int]] = []
        modes = 0
        for source in sources:
            key = int(rng.integers(2**63))
            if source == MODE:
                limit = None if self._limits is None else self._limits.mode()
                model = replace(posterior.mode(), limit=limit)
                jobs.append((source, model, best[modes % len(best)], HOT[modes % len(HOT)], key))
                modes += 1
            elif source == SAMPLE:
                at = min(int(rng.exponential(self._config.reach)), len(best) - 1)
                limit = None if self._limits is None else self._limits.sample(rng)
                jobs.append((source, replace(posterior.sample(rng), limit=limit), best[at], HOT[0], key))
        workers = min(4, os.cpu_count() or 1)
        with ThreadPoolExecutor(workers) as pool:
            for begin in range(0, len(jobs), workers):
                yield list(pool.map(self._improve, jobs[begin : begin + workers]))

    def _improve(self, job: tuple[str, Model, Mapping16, float, int]) -> tuple[str, Mapping16]:
        source, model, start, hot, key = job
        assert self.posterior is not None
        steps = self._config.steps * (DEEPER if self.posterior.profiled else 1)
        return source, self._family.improve(model, start, steps=steps, hot=hot, key=key)

    def _near(
        self,
        posterior: Posterior,
        parents: Mapping16,
        seen: set[bytes],
        failed: Mapping16,
        count: int,
        rng: np.random.Generator,
    ) -> list[Mapping16]:
        """Up to `count` new changes of `parents` [K, N, H], best first, that are the most promising."""
        ranks = np.minimum(rng.exponential(1.5, self._config.candidates), len(parents) - 1).astype(np.int64)
        changed = self._repaired(np.stack([self._moves.propose(parents[k], rng) for k in ranks]), rng)
        new = {one.tobytes(): one for one in changed if one.tobytes() not in seen}
        if not new:
            return []
        candidates = np.stack(list(new.values()))
        mean, doubt = posterior.predict(candidates)
        if len(failed):
            step = max(FAILING, float(doubt.max()))
            mean = mean + step * closeness(self._family.distance(candidates, failed)).max(axis=1)
            if self._limits is not None:
                mean = mean - step * np.log(np.maximum(self._limits.probability(candidates), LEAST_CHANCE))
        chosen: list[Mapping16] = []
        for _ in range(min(count, len(candidates))):
            at = int(np.argmin(mean - abs(rng.standard_normal()) * doubt))
            chosen.append(candidates[at])
            mean[at] = np.inf
        return chosen

    def _changed(self, mapping: Mapping16, rng: np.random.Generator) -> Mapping16:
        found: Mapping16 = self._repaired(self._moves.propose(mapping, rng)[None], rng)[0]
        return found

    def _repaired(self, mapping: Mapping16, rng: np.random.Generator) -> Mapping16:
        """What runs for mappings [B, N, H]."""
        keys = rng.integers(2**63, size=len(mapping)).astype(np.uint64)
        return self._problem.evaluate(repair(self._problem, mapping, keys), keys).repaired

    def variants(self, mapping: Mapping16, count: int, rng: np.random.Generator) -> Mapping16:
        """`count` mappings that are some moves away from some [K, N, H]."""
        found = []
        for number in range(count):
            one = mapping[number % len(mapping)]
            for _ in range(3):
                one = self._moves.propose(one, rng)
            found.append(one)
        return self._repaired(np.stack(found), rng) if found else mapping[:0]

    # ---- checkpoints

    def state_dict(self) -> dict[str, Any]:
        """Beliefs and credit; the posterior follows from the data and them."""
        beliefs = self.beliefs
        return {
            "likely": [sorted(effects) for effects in beliefs.likely],
            "sizes": asdict(
                beliefs.scales
            ),  # as they are: from their logarithms the last bits would be others
            "theta": [{"effects": sorted(effects), "mode": mode} for effects, mode in beliefs.theta.items()],
            "searched": beliefs.searched,
            "success": self.credit.success,
            "tries": self.credit.tries,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        scales = Scales(**{name: float(size) for name, size in state["sizes"].items()})
        self.beliefs = Beliefs(
            tuple(frozenset(effects) for effects in state["likely"]),
            scales,
            {frozenset(entry["effects"]): entry["mode"] for entry in state["theta"]},
            state["searched"],
        )
        self.credit = Credit(SOURCES, state["success"], state["tries"])


def unique_rows(mapping: Mapping16) -> NDArray[np.int64]:
    """Positions of the first of each different mapping among [B, N, H], ascending."""
    flat = np.ascontiguousarray(mapping).reshape(len(mapping), -1)
    return np.sort(np.unique(flat, axis=0, return_index=True)[1])
