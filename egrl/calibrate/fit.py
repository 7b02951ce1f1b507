"""A description of a board fitted to measurements, and how well it and the whole posterior predict held-out ones.

Two posteriors (`egrl.methods.twin.inference`): one of everything that the family knows, and one of the effects that a
description can have, so that what it cannot say is taken up as well as may be by what it can. The fitted description
is near the mode of the second (`shared`), without what belongs to single nodes.

Source: see `egrl.methods.twin.inference`; intervals are those of the posterior with the family taken as linear near
its mode; cross-validation draws its folds over all mappings of all networks.

Networks on one board are fitted as one family: what belongs to the board is one parameter for all of them. A row of
such a stack is int16 [1 + N, H]: the number of the network, then its mapping, then -1 up to the longest network.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from egrl.core.flow import one_thread
from egrl.methods.twin.data import MOST, Data, averaged, gather, thin
from egrl.methods.twin.inference import Beliefs, Inference, Posterior, fit, structure
from egrl.problems import find_problem
from egrl.runs.past_run import PastRun
from hwsim.capabilities import HasFiles, HasParts
from hwsim.family import Effects, Estimate, Family, HasFamily, Learnable, Model, Parameter, PartTimes
from hwsim.problem import Floats, Mapping16, Problem
from workloads.errors import InputError


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

    def part_times(self, model: Model, mapping: Mapping16) -> PartTimes | None:
        """The parts of each network, 0 beyond its last up to those of the longest; None if one does not know parts."""
        found = []
        for number, at, own in self._blocks(mapping):
            times = self._families[number].part_times(self.part(number, model), own)
            if times is None:
                return None
            found.append((self._columns[number], at, times))
        most = max(times.seconds.shape[1] for _, _, times in found)
        columns = np.unique(np.concatenate([to[times.columns] for to, _, times in found]))
        seconds = np.zeros((len(mapping), most))
        common = np.zeros((len(mapping), most, len(columns)))
        entries: list[tuple[Floats, NDArray[np.int64], NDArray[np.int64]]] = []
        for to, at, times in found:
            parts = times.seconds.shape[1]
            seconds[at, :parts] = times.seconds
            where = np.searchsorted(columns, to[times.columns])
            common[np.ix_(at, np.arange(parts), where)] = times.common.reshape(len(at), parts, -1)
            single = times.alone.tocoo()
            entries.append((single.data, at[single.row // parts] * most + single.row % parts, to[single.col]))
        values, row, column = (np.concatenate(each) for each in zip(*entries, strict=True))
        shape = (len(mapping) * most, len(self.parameters))
        alone = sparse.csr_matrix((values, (row, column)), shape)
        return PartTimes(seconds, columns, common.reshape(len(mapping) * most, -1), alone)

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


Z90 = 1.645
STEPS, LEAST_STEP, JITTER = 12, 0.05, 1e-9
LEARNED = 0.8
"""A parameter whose posterior spread is a larger share of its prior's has not been learned."""


@dataclass(frozen=True)
class Fit:
    """A posterior and what it is of.

    Attributes:
        stack: the networks' families as one.
        data: all measurements.
        beliefs: where the inference came to.
        posterior: what it says.
    """

    stack: Stack
    data: Data
    beliefs: Beliefs
    posterior: Posterior

    def spread(self) -> Floats:
        """float64 [P]: prior standard deviations of the parameters' logarithms, those of single nodes as learned."""
        own = np.array([self.posterior.scales.own if p.own else 1.0 for p in self.stack.parameters])
        return np.array([p.spread for p in self.stack.parameters]) * own

    def estimates(self) -> list[Estimate]:
        """The estimate of each parameter."""
        unit = np.array([p.spread for p in self.stack.parameters])
        middle, doubt = self.posterior.near.model.theta * unit, self.posterior.doubt() * unit
        return [
            parameter.within(Estimate(*np.exp([m, m - Z90 * d, m + Z90 * d]).tolist()))
            for parameter, m, d in zip(self.stack.parameters, middle, doubt, strict=True)
        ]

    def learned(self) -> Floats:
        """float64 [P]: posterior spread of each parameter as a share of its prior's."""
        unit = np.array([p.spread for p in self.stack.parameters])
        return np.asarray(self.posterior.doubt() * unit / self.spread())

    def odds(self) -> dict[str, float]:
        """The log odds of each effect that it is there rather than not, the others as at the mode."""
        inference, at = Inference(self.stack, self.data), self.posterior.effects
        here = structure(inference, self.beliefs, at).evidence
        found = {}
        for effect in self.stack.effects:
            gain = here - structure(inference, self.beliefs, at ^ {effect}, at).evidence
            found[effect] = gain if effect in at else -gain
        return found


def fit_of(networks: Sequence[Network], effects: Sequence[str] | None, like: Fit | None = None) -> Fit:
    """The posterior of some networks' measurements, of `effects` [all that the family knows].

    Where it is to be `like` another, the effects that are on are the other's, and are not searched again.
    """
    shapes = [network.mapping.shape[1:] for network in networks]
    stack = Stack([network.family for network in networks], shapes, effects)
    rows = stack.rows([network.mapping for network in networks])
    cost = np.concatenate([network.cost for network in networks])
    data, beliefs = gather(stack, rows, cost, len(cost), _profiles(networks)), Beliefs((stack.nominal,))
    if like is not None:
        beliefs = Beliefs((like.posterior.effects,), searched=len(cost))
    with one_thread():
        *_, posterior = fit(stack, data, beliefs)
    assert posterior is not None
    return Fit(stack, data, beliefs, posterior)


def _profiles(networks: Sequence[Network]) -> Floats | None:
    """float64 [M, Q], network by network, 0 beyond the last part of a profiled one; None if nothing was profiled."""
    most = max((network.parts.shape[1] for network in networks if network.parts is not None), default=0)
    found = np.full((sum(len(network.cost) for network in networks), most), np.nan)
    end = 0
    for network in networks:
        begin, end = end, end + len(network.cost)
        if network.parts is not None:
            found[begin:end, network.parts.shape[1] :] = 0.0
            found[begin:end, : network.parts.shape[1]] = network.parts
    return found if most else None


def describable(networks: Sequence[Network]) -> Sequence[str]:
    """The effects that a description can have."""
    problem = networks[0].problem
    assert isinstance(problem, HasFamily)
    return problem.describable


def shared(found: Fit) -> dict[str, Estimate]:
    """Estimates of the board's own parameters by name, those of effects that are off left out.

    The intervals are the posterior's. The factors are those within them with which the board's parameters alone
    predict the measurements best: what single nodes have of their own is missing in a description, and what all of them
    have in common is better said by a constant than not at all.
    """
    columns = np.array(
        [
            k
            for k, p in enumerate(found.stack.parameters)
            if p.shared and p.effect in ("", *found.posterior.effects)
        ]
    )
    theta, estimates = _projected(found, columns), found.estimates()
    return {
        parameter.name: parameter.within(
            replace(estimates[k], factor=float(np.exp(parameter.spread * theta[k])))
        )
        for k, parameter in ((k, found.stack.parameters[k]) for k in columns.tolist())
    }


def _projected(found: Fit, columns: NDArray[np.int64]) -> Floats:
    """float64 [P], 0 but for `columns`: Gauss-Newton for the misfit of the data, with the posterior as the prior.

    Source: the projection of a posterior on a smaller model (Piironen, Paasiniemi and Vehtari, Electronic J. Statistics
    14, 2020); here the misfit is taken as independent, of a size that is estimated along.
    """
    inference, mean = Inference(found.stack, found.data), found.posterior.near.model.theta[columns]
    within = Z90 * found.posterior.doubt()[columns]
    precision = np.linalg.inv(found.posterior.covariance(columns) + JITTER * np.eye(len(columns)))
    theta = np.zeros(len(found.stack.parameters))
    theta[columns] = mean
    near = inference.linear(found.posterior.effects, theta)
    for _ in range(STEPS):
        left, away = found.data.log_cost - near.predicted, near.model.theta[columns] - mean
        size = max(float(np.mean(left**2)), found.posterior.scales.noise**2)
        slope = near.slope[:, columns]
        toward = np.linalg.solve(slope.T @ slope / size + precision, slope.T @ left / size - precision @ away)
        lowest, step = left @ left / size + away @ precision @ away, 1.0
        while step >= LEAST_STEP:
            trial = near.model.theta.copy()
            trial[columns] = np.clip(trial[columns] + step * toward, mean - within, mean + within)
            next_ = inference.linear(found.posterior.effects, trial)
            left, away = found.data.log_cost - next_.predicted, trial[columns] - mean
            if left @ left / size + away @ precision @ away < lowest:
                break
            step /= 2
        else:
            break
        near = next_
    return near.model.theta


def described(networks: Sequence[Network], found: Fit, name: str) -> tuple[list[Family], str]:
    """The family of each network on the board as fitted, and the text of its description."""
    families, text = [], ""
    estimates, effects = shared(found), found.posterior.effects
    for network in networks:
        assert isinstance(network.problem, HasFamily)
        problem, text = network.problem.described(estimates, effects, name)
        assert isinstance(problem, HasFamily)
        families.append(problem.family)
    return families, text


def check_name(networks: Sequence[Network], name: str) -> None:
    """InputError where a description cannot have that name."""
    problem = networks[0].problem
    assert isinstance(problem, HasFamily)
    problem.described({}, networks[0].family.nominal, name)


def nominal(networks: Sequence[Network]) -> Floats:
    """Log costs float64 [M], network by network, by the description as it was."""
    return simulated([network.family for network in networks], networks)


def simulated(families: Sequence[Family], networks: Sequence[Network]) -> Floats:
    """Log costs float64 [M], network by network, as the description says that is nominal in a family of each."""
    return np.concatenate(
        [
            np.log(family.predict(itself(family), network.mapping))
            for family, network in zip(families, networks, strict=True)
        ]
    )


def itself(family: Learnable) -> Model:
    """The member of a family that is the description itself."""
    return Model(family.nominal, np.zeros(len(family.parameters)))


def held_out(
    networks: Sequence[Network], folds: int, seed: int, by_file: Fit, by_all: Fit
) -> Mapping[str, Floats]:
    """Log costs float64 [M] of all mappings, network by network, each predicted by fits that have not seen it.

    The keys are `fitted`, by the description as the simulator reads it, and `posterior`, by all that was learned. The
    effects are those of the fits to everything, `by_file` and `by_all`; all else is fitted anew.
    """
    sizes = [len(network.cost) for network in networks]
    fold = np.random.default_rng(seed).permutation(np.arange(sum(sizes)) % folds)
    parts = np.split(fold, np.cumsum(sizes)[:-1])
    found = {name: np.empty(sum(sizes)) for name in ("fitted", "posterior")}
    for number in range(folds):
        train = [_some(network, part != number) for network, part in zip(networks, parts, strict=True)]
        test = [_some(network, part == number) for network, part in zip(networks, parts, strict=True)]
        file = fit_of(train, describable(networks), by_file)
        found["fitted"][fold == number] = simulated(described(test, file, "fold")[0], test)
        rest = file if by_all is by_file else fit_of(train, None, by_all)
        rows = rest.stack.rows([network.mapping for network in test])
        found["posterior"][fold == number] = rest.posterior.predict(rows)[0]
    return found


def _some(network: Network, chosen: NDArray[np.bool_]) -> Network:
    parts = None if network.parts is None else network.parts[chosen]
    return replace(network, mapping=network.mapping[chosen], cost=network.cost[chosen], parts=parts)


def beyond(found: Fit, sayable: Sequence[str]) -> tuple[Effects, float]:
    """Effects that were found and no description can say, and the share of the costs that they account for."""
    effects = found.posterior.effects - frozenset(sayable)
    model = found.posterior.near.model
    with_them = found.stack.gradient(model, found.data.mapping)[0]
    without = found.stack.gradient(Model(model.effects - effects, model.theta), found.data.mapping)[0]
    return effects, float(np.mean(1.0 - without / with_them))


MEASURED_FOR_IT = "calibration"
"""The folder of a run that has what calibrations measured."""
SAME_COST_TOLERANCE = 1e-4
"""Costs are the description's own up to so much: those of a family need not round sizes to whole bytes."""
MIN_MAPPINGS = 10
"""Different mappings that must have been measured in all."""


@dataclass(frozen=True)
class Network:
    """The measurements of one network.

    Attributes:
        name: the workload's.
        problem: it on the board as described.
        family: the problem's.
        mapping: int16 [M, N, H], different ones.
        cost: float64 [M], geometric means where one was measured several times.
        parts: float64 [M, Q], the time of each op, NaN where it is not known; None if no board has profiled one.
    """

    name: str
    problem: Problem
    family: Family
    mapping: Mapping16
    cost: Floats
    parts: Floats | None = None


def networks(runs: Sequence[PastRun]) -> list[Network]:
    """The measurements of some runs, those of one network together; of many, the best half and an even choice.

    InputError where a run's costs were not measured, its problem has no family, the boards are described differently,
    or too little was measured.
    """
    problems: dict[str | bytes, Problem] = {}
    rows: dict[str | bytes, list[_Rows]] = {}
    described = ""
    for run in runs:
        problem = run.problem
        if not isinstance(problem, HasFamily):
            raise InputError(
                f"{run.path}: expected a problem with a family of models (nnpi, mcm), found {problem.about.name!r}"
            )
        assert isinstance(problem, HasFiles)
        files = dict(problem.files())
        workload = files.pop(find_problem(run.options.problem).workload_file)
        described = described or str(files)
        if str(files) != described:
            raise InputError(
                f"{run.path}: expected runs with one chip file, found another than {runs[0].path} has"
            )
        problems.setdefault(workload, problem)
        for found in (run.evaluations(), run.evaluations(MEASURED_FOR_IT)):
            ran = np.isfinite(found.cost) & (found.cost > 0)
            if not run.options.evaluator and _own(problem.family, found.mapping[ran], found.cost[ran]):
                raise InputError(
                    f"{run.path}: expected a run whose costs were measured, by --evaluator or reported; this one's are"
                    " the chip file's own"
                )
            quantity = len(problem.parts) if isinstance(problem, HasParts) else 0
            parts = np.full((len(ran), quantity), np.nan)
            if found.parts.shape[1] == quantity:
                parts[:] = found.parts
            rows.setdefault(workload, []).append((found.mapping[ran], found.cost[ran], parts[ran]))
    made = [_network(problems[key], some, MOST // len(rows)) for key, some in rows.items()]
    count = sum(len(network.cost) for network in made)
    if count < MIN_MAPPINGS:
        raise InputError(
            f"RUN: expected at least {MIN_MAPPINGS} different mappings that were measured, found {count}"
        )
    return [network for network in made if len(network.cost)]


def _own(family: Family, mapping: Mapping16, cost: Floats) -> bool:
    """Whether costs [M] of mappings [M, N, H], if any, are what the description itself says: nothing to learn."""
    nominal = Model(family.nominal, np.zeros(len(family.parameters)))
    return len(cost) > 0 and bool(
        np.allclose(family.predict(nominal, mapping), cost, rtol=SAME_COST_TOLERANCE)
    )


_Rows = tuple[Mapping16, Floats, Floats]
"""Mappings [R, N, H], their costs [R], and their profiles [R, Q]."""


def _network(problem: Problem, rows: Sequence[_Rows], most: int) -> Network:
    assert isinstance(problem, HasFamily)
    mapping, cost, profiles = (np.concatenate(column) for column in zip(*rows, strict=True))
    log_cost = np.log(cost)
    flat = mapping.reshape(len(mapping), -1)
    _, first, number = np.unique(flat, axis=0, return_index=True, return_inverse=True)
    cost = np.exp(np.bincount(number, log_cost) / np.bincount(number)) if len(flat) else np.zeros(0)
    parts = averaged(profiles, number, len(cost))
    if len(cost) > most:
        kept = thin(cost, most)
        first, cost, parts = first[kept], cost[kept], None if parts is None else parts[kept]
    return Network(problem.about.workload, problem, problem.family, mapping[first], cost, parts)
