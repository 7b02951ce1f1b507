"""The network that reads profiles: trained on boards that differ from their chip files, and what a profile is worth.

    python -m benchmarks.placing_profile train DRAWN.pickle … -o NETWORK.safetensors [--without a,b --rounds 8000]
    python -m benchmarks.placing_profile test NETWORK.safetensors DRAWN.pickle … [--families a,b]
    python -m benchmarks.placing_profile test NETWORK.safetensors --networks a.onnx,b.onnx [--boards 3]

DRAWN are files of `benchmarks.placing_network draw`. A *board* is an instance whose constants are off: bandwidths,
launch and compute, each op's compute time, what each tensor moves; and an effect of the simulator may be missing. A
policy sees the chip file as it was, and the profile, with 5 % noise an op, of a mapping that ran on the board: the
compiler's, its own, or its own after that; or none. Its scores follow the gradient of the board's costs
(`egrl.methods.rank.gradient`).

`test` measures the compiler's mapping and then what the network places, each after the profile of the fastest so far:
on a board of each drawn instance, or on boards of `benchmarks.foreign.boards` (two of three kinds are simulators of
another structure). Beside it stand the same measurements of this network if it is shown no profile, of the network that
reads none, and one of what a local search on the chip file finds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.foreign.boards import profiler
from benchmarks.placing_network import BATCH, NETWORK
from benchmarks.placing_varied import Instance, read
from egrl.methods.placed import SIGMA
from egrl.methods.policy_fit import places_of
from egrl.methods.rank.config import ScoreGradientConfig
from egrl.methods.rank.gradient import ScoreGradient, regret
from egrl.reproduction import interval_cell, paired
from hwsim.nearest import Costs, nearest_by
from hwsim.nnpi.annealing import anneal
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.latency import latencies, profiles
from hwsim.nnpi.place_features import FEATURE_NAMES
from hwsim.nnpi.placer import DEFAULT_RULE, RULES, compile_map
from hwsim.nnpi.problem import NnpiProblem
from hwsim.nnpi.profile_features import PROFILE_NAMES
from hwsim.nnpi.rectify import rectify
from hwsim.nnpi.tables import Tables
from hwsim.placing import Placer
from hwsim.problem import Mapping16
from policies.places import Places
from policies.ranker import Rankers
from policies.ranking_module import RankingModule
from policies.shipped import network as shipped
from policies.store import load_policy, ranker_policy, ranker_weights, rankers_of, save_policy
from policies.weight_vector import Weights
from workloads.load import load

NAMES = FEATURE_NAMES + PROFILE_NAMES
NOISE, OFF, MISSING = 0.05, 0.45, 0.15
"""Relative noise of a profile, largest log factor on a constant, and probability that an effect is another."""
OF_OPS, OF_TENSORS = (0.0, 0.2, 0.4), (0.0, 0.15, 0.4)
"""Standard deviations of the log factors on each op's compute time, and on what each tensor moves."""
EFFECTS = ("cross", "prefetch", "contention", "moves")
MEASURED, STEPS, LOCAL, SHOWN, TRIES = (2, 4, 8), 60_000, 8_000, 500, 8
ONE_SHOT = "the network that ships for one shot"
FOREIGN = ("c", "queues", "droop")
"""Kinds of boards on which given networks are tested."""


@dataclass(frozen=True)
class Board:
    """A board: what a policy knows of it, and what it is.

    Attributes:
        name: of the network.
        placer, places: of the chip file.
        tables: of the chip file.
        rule: the compiler's mapping int16 [N, 2].
        costs_of: noise-free seconds float64 [B] of mappings int16 [B, N, 2].
        profile_of: seconds float [N] of the ops of one mapping int16 [N, 2], with noise that a key decides.
        truth: what the board is, if it follows the equations of the chip file.
    """

    name: str
    placer: Placer
    places: Places
    tables: Tables
    rule: Mapping16
    costs_of: Callable[[Mapping16], NDArray[np.float64]]
    profile_of: Callable[[Mapping16, int], NDArray[np.floating]]
    truth: Tables | None = None

    @staticmethod
    def of(instance: Instance, rng: np.random.Generator) -> Board:
        """One drawn around the chip file of an instance."""
        tables = board_tables(instance.tables, rng)
        rule = compile_map(instance.tables, RULES[DEFAULT_RULE])
        return Board(
            instance.name,
            instance.placer,
            instance.places,
            instance.tables,
            rule,
            partial(_seconds, tables),
            partial(_profile, tables),
            tables,
        )

    @staticmethod
    def foreign(problem: NnpiProblem, kind: str, seed: int) -> Board:
        """One of `benchmarks.foreign.boards`."""
        measure = profiler(problem, kind, seed)
        return Board(
            problem.about.workload,
            problem.placer,
            places_of(problem),
            problem.tables,
            problem.baseline.mapping,
            lambda maps: np.array([float(measure(mapping).sum()) for mapping in maps]),
            lambda mapping, key: _noisy(measure(mapping), key),
        )

    @cached_property
    def base(self) -> float:
        """Seconds of the compiler's mapping."""
        return float(self.costs_of(self.rule[None])[0])

    def costs(self, maps: Mapping16) -> NDArray[np.float64]:
        """Of mappings int16 [B, N, 2], over that of the compiler's."""
        return self.costs_of(maps) / self.base

    def place(self, scores: NDArray[np.float32], free: NDArray[np.float64]) -> Mapping16:
        """Mappings int16 [B, N, 2] of scores float32 [B, T, L]."""
        return self.placer.place(np.ascontiguousarray(scores), free)

    def blank(self) -> Places:
        """What a policy sees before anything was measured."""
        return self.places.with_blank(len(PROFILE_NAMES))

    def after(self, mapping: Mapping16, key: int) -> Places:
        """What a policy sees after a noisy profile of a mapping int16 [N, 2]."""
        took = self.profile_of(mapping, key).astype(np.float32)
        return self.places.with_features(self.placer.of_profile(mapping, took))


def _seconds(tables: Tables, maps: Mapping16) -> NDArray[np.float64]:
    return np.asarray(latencies(tables, np.ascontiguousarray(maps), np.zeros(len(maps))))


def _profile(tables: Tables, mapping: Mapping16, key: int) -> NDArray[np.float32]:
    one, keys = np.ascontiguousarray(mapping)[None], np.array([key], np.uint64)
    return np.asarray(profiles(tables, one, np.zeros(1), NOISE, keys)[1][0])


def _noisy(seconds: NDArray[np.float64], key: int) -> NDArray[np.float64]:
    return seconds * np.exp(NOISE * np.random.default_rng(key).standard_normal(len(seconds)))


def board_tables(tables: Tables, rng: np.random.Generator) -> Tables:
    """Tables of a board whose chip file these are."""
    ops, uniform = len(tables.weight_bytes), rng.uniform(-OFF, OFF, len(tables.bandwidth_Bps) + 2)
    bandwidth = tables.bandwidth_Bps * np.exp(uniform[2:])
    compute = np.exp(uniform[0] + rng.choice(OF_OPS) * rng.standard_normal(ops))
    moved = np.exp(rng.choice(OF_TENSORS) * rng.standard_normal((2, ops)))

    def times(values: NDArray[np.int64], by: NDArray[np.float64]) -> NDArray[np.int64]:
        return np.where(values > 0, np.maximum(np.rint(values * by), 1), 0).astype(np.int64)

    others = {name: not getattr(tables, name) for name in EFFECTS if rng.random() < MISSING}
    return tables._replace(
        bandwidth_Bps=bandwidth,
        inverse_bandwidth=1 / bandwidth,
        launch_s=tables.launch_s * float(np.exp(uniform[1])),
        compute_s=tables.compute_s * compute,
        weight_read_bytes=times(tables.weight_read_bytes, moved[0]),
        pass_bytes=tables.pass_bytes * moved[0],
        written_bytes=times(tables.written_bytes, moved[1]),
        edge_bytes=times(tables.edge_bytes, moved[1][tables.edge_source]),
        external_bytes=times(tables.external_bytes, moved[1]),
        **others,
    )


def own_mapping(weights: Weights, places: Places, board: Board) -> Mapping16:
    """What weights [P] place, int16 [N, 2]."""
    return board.place(*Rankers(NETWORK, NAMES, 2).scores(weights[None], places))[0]


def seen(board: Board, weights: Weights, rng: np.random.Generator) -> Places:
    """What is trained on: nothing, or the profile of the compiler's mapping, of its own, or of its own after that."""
    kind, keys = int(rng.integers(4)), rng.integers(2**31, size=2).tolist()
    if kind == 0:
        return board.blank()
    if kind == 1:
        return board.after(board.rule, keys[0])
    places = board.after(own_mapping(weights, board.blank(), board), keys[0])
    return places if kind == 2 else board.after(own_mapping(weights, places, board), keys[1])


def trained(instances: Sequence[Instance], begin: Weights, rounds: int, seed: int) -> Weights:
    """Weights trained on boards of instances, from weights of `NETWORK`."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    module, rng = RankingModule(NAMES, 2, NETWORK), np.random.default_rng(seed)
    first = [Board.of(instance, rng) for instance in instances[:400]]
    module.see([seen(board, begin, rng) for board in first])
    module.begin_with(begin, Rankers(NETWORK, NAMES, 2).weight_format)
    config = ScoreGradientConfig(
        rounds=rounds, input_noise=0.15, first_sigma=0.3, first_rate=2e-3, last_rate=2e-4
    )
    training = ScoreGradient(module, config.longest, config.input_noise)
    for number in range(1, rounds + 1):
        chosen = rng.choice(len(instances), min(BATCH.tasks, len(instances)), replace=False)
        boards, weights = [Board.of(instances[k], rng) for k in chosen], module.weights()
        given, sigma = [seen(board, weights, rng) for board in boards], config.sigma(training.rounds)
        draws = training.begin(given, BATCH.samples, sigma, rng)
        costs = [b.costs(b.place(d.scores, d.free_share)) for b, d in zip(boards, draws, strict=True)]
        least = [instances[k].best / instances[k].base for k in chosen]
        losses = [regret(c, best) for c, best in zip(costs, least, strict=True)]
        length = training.end(draws, losses, config.rate(training.rounds))
        if number % SHOWN == 0:
            print(f"{number}: length of the gradient {length:.3f}", flush=True)
    return module.weights()


def chain(board: Board, weights: Weights, profiled: bool, rng: np.random.Generator) -> list[float]:
    """Log speedups of the compiler's mapping and of the following ones, each after the fastest so far.

    One that ran before is placed again with noise on its scores.
    """
    places, gained, ran = board.blank(), [0.0], {board.rule.tobytes()}
    rankers, fastest = Rankers(NETWORK, NAMES, 2), board.rule
    while len(gained) < max(MEASURED):
        if profiled:
            places = board.after(fastest, len(gained))
        scores, free = rankers.scores(weights[None], places)
        mapping = board.place(scores, free)[0]
        for _ in range(TRIES):
            if mapping.tobytes() not in ran:
                break
            noisy = scores.copy()
            noisy[:, :, 1:] += SIGMA * rng.standard_normal(scores[:, :, 1:].shape, dtype=np.float32)
            mapping = board.place(noisy, free)[0]
        ran.add(mapping.tobytes())
        gained.append(-float(np.log(board.costs(mapping[None])[0])))
        if gained[-1] == max(gained):
            fastest = mapping
    return gained


def table(boards: Sequence[Board], weights: Weights, plain: Weights) -> list[str]:
    """Lines of Markdown: what each arm reaches on the boards after some measurements.

    Geometric means over boards of the speedup over the compiler's mapping; in brackets the share of what an annealing
    of the board reaches, where all follow the chip file's equations. Intervals are over networks, of log speedups over
    the network that reads no profiles.
    """
    names = np.array([board.name for board in boards])
    reach = None if any(board.truth is None for board in boards) else np.array([_reach(b) for b in boards])
    arms = {
        "shown profiles": (weights, True),
        "the same network, shown none": (weights, False),
        ONE_SHOT: (plain, False),
    }
    gained = {
        name: np.array([chain(b, own, shown, np.random.default_rng(k)) for k, b in enumerate(boards)])
        for name, (own, shown) in arms.items()
    }
    marks = {name: _marks(own) for name, own in gained.items()}
    marks[f"{LOCAL:,} steps of local search on the chip file"] = [
        np.array([_local(b, plain) for b in boards])
    ]
    titles = ("", "second mapping", *(f"best of {count}" for count in MEASURED[1:]), "slowest second")
    lines = ["| " + " | ".join(titles) + " |", "|---" + "|---:" * (len(titles) - 1) + "|"]
    for name, columns in marks.items():
        cells = [name]
        for column, other in zip(columns, marks[ONE_SHOT], strict=False):
            share = "" if reach is None else f" ({column.sum() / reach.sum():.2f})"
            means = [
                [values[names == unit].mean() for unit in np.unique(names)] for values in (column, other)
            ]
            beside = "" if name == ONE_SHOT else f"; {interval_cell(paired(*means))}"
            cells.append(f"{np.exp(column.mean()):.4f}{share}{beside}")
        cells += [""] * (len(MEASURED) + 1 - len(cells)) + [f"{np.exp(columns[0].min()):.3f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _marks(gained: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Of chains float64 [B, M]: the second mapping, and the best of some."""
    return [gained[:, 1], *(gained[:, :count].max(axis=1) for count in MEASURED[1:])]


def _local(board: Board, plain: Weights) -> float:
    """Log speedup of what a local search on the chip file's model makes of the network's own mapping.

    What differs from the compiler's mapping and gains nothing by that model is undone, as `egrl place` does.
    """
    own = own_mapping(plain, board.blank(), board)
    found, _ = anneal(board.tables, own, steps=LOCAL, key=1, restarts=1)
    found = nearest_by(_Modelled(board), found, memories=True)
    return -float(np.log(board.costs(found[None])[0]))


class _Modelled(Costs):
    """Costs by the chip file of a board, for `hwsim.nearest`."""

    def __init__(self, board: Board) -> None:
        tables = board.tables
        size = np.stack([tables.weight_bytes, tables.activation_bytes], axis=1)
        choices = np.full(size.shape, len(tables.capacity_bytes))
        space = SimpleNamespace(live=board.rule >= 0, size_bytes=size, num_choices=choices)
        baseline = SimpleNamespace(mapping=board.rule)
        self.problem: Any = SimpleNamespace(space=space, baseline=baseline)
        self.calls, self.limit, self._tables = 0, sys.maxsize, tables

    def __call__(self, mapping: Mapping16) -> tuple[Mapping16, NDArray[np.float64]]:
        """See `Costs`."""
        self.calls += len(mapping)
        runs = rectify(self._tables, np.ascontiguousarray(mapping))[0]
        return runs, _seconds(self._tables, runs)


def _reach(board: Board) -> float:
    """Log speedup of an annealing of the board's own costs, from the compiler's mapping."""
    assert board.truth is not None
    _, cost = anneal(board.truth, board.rule, steps=STEPS, key=1, restarts=1)
    return max(0.0, float(np.log(board.base / cost)))


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("train", "test"))
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--begin", type=Path, help="a network to begin with; none: the one that ships")
    parser.add_argument("--without", default="", help="families that are left out")
    parser.add_argument("--families", default="", help="families that are tested; none: all")
    parser.add_argument("--rounds", type=int, default=8000)
    parser.add_argument("--networks", default="", help="names or files, tested on boards")
    parser.add_argument("--boards", type=int, default=3, help="of each kind, for each network")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    files = given.files if given.what == "train" else given.files[1:]
    drawn = [instance for path in files for instance in read(path)]
    rankers, plain = _begin(given.begin)
    begin = rankers.for_features(NAMES, plain)[1]
    if given.what == "test":
        policy = load_policy(given.files[0])
        weights = ranker_weights(policy, rankers_of(policy))
        families = set(given.families.split(",")) - {""}
        kept = [i for i in drawn if not families or families & set(i.families)]
        boards = [Board.of(instance, np.random.default_rng([7, k])) for k, instance in enumerate(kept)]
        problems = [NnpiProblem(load(name), load_chip("nnpi")) for name in given.networks.split(",") if name]
        boards += [
            Board.foreign(problem, kind, seed)
            for problem in problems
            for kind in FOREIGN
            for seed in range(given.boards)
        ]
        print(f"{len(boards)} boards of {len({board.name for board in boards})} networks")
        print("\n".join(table(boards, weights, begin)))
        return
    without = set(given.without.split(",")) - {""}
    kept = [i for i in drawn if not without & set(i.families)]
    weights = trained(kept, begin, given.rounds, given.seed)
    free = {"seed": given.seed, "rounds": given.rounds, "without": sorted(without)}
    policy = ranker_policy(
        weights, Rankers(NETWORK, NAMES, 2), heads=("weight", "activation"), choices=3, **free
    )
    save_policy(given.output, policy.weights, policy.metadata)


def _begin(path: Path | None) -> tuple[Rankers, Weights]:
    """The network without profiles to begin with."""
    if path is None:
        found = shipped(FEATURE_NAMES, 2)
        assert found is not None
        return found.rankers, found.weights
    policy = load_policy(path)
    rankers = rankers_of(policy)
    return rankers, ranker_weights(policy, rankers)


if __name__ == "__main__":
    main()
