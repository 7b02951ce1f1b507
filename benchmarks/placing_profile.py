"""The network that reads profiles: trained on boards that differ from their chip files.

    python -m benchmarks.placing_profile DRAWN.pickle … -o NETWORK.safetensors [--without a,b --rounds 8000]

DRAWN are files of `benchmarks.placing_network draw`. A *board* is an instance whose constants are off: bandwidths,
launch and compute, each op's compute time, what each tensor moves; and an effect of the simulator may be missing. A
policy sees the chip file as it was, and the profile, with 5 % noise an op, of a mapping that ran on the board: the
compiler's, its own, or its own after that; or none. Its scores follow the gradient of the board's costs
(`egrl.methods.rank.gradient`).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.placing_network import BATCH, NETWORK
from benchmarks.placing_varied import Instance, read
from egrl.methods.rank.config import ScoreGradientConfig
from egrl.methods.rank.gradient import ScoreGradient, regret
from hwsim.nnpi.latency import latencies, profiles
from hwsim.nnpi.place_features import FEATURE_NAMES
from hwsim.nnpi.placer import DEFAULT_RULE, RULES, compile_map
from hwsim.nnpi.profile_features import PROFILE_NAMES
from hwsim.nnpi.tables import Tables
from hwsim.placing import Placer
from hwsim.problem import Mapping16
from policies.places import Places
from policies.ranker import Rankers
from policies.ranking_module import RankingModule
from policies.shipped import network as shipped
from policies.store import load_policy, ranker_policy, ranker_weights, rankers_of, save_policy
from policies.weight_vector import Weights

NAMES = FEATURE_NAMES + PROFILE_NAMES
SHOWN = 500
NOISE, OFF, MISSING = 0.05, 0.45, 0.15
"""Relative noise of a profile, largest log factor on a constant, and probability that an effect is another."""
OF_OPS, OF_TENSORS = (0.0, 0.2, 0.4), (0.0, 0.15, 0.4)
"""Standard deviations of the log factors on each op's compute time, and on what each tensor moves."""
EFFECTS = ("cross", "prefetch", "contention", "moves")


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


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--begin", type=Path, help="a network to begin with; none: the one that ships")
    parser.add_argument("--without", default="", help="families that are left out")
    parser.add_argument("--rounds", type=int, default=8000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    rankers, plain = _begin(given.begin)
    without = set(given.without.split(",")) - {""}
    drawn = [instance for path in given.files for instance in read(path)]
    kept = [instance for instance in drawn if not without & set(instance.families)]
    weights = trained(kept, rankers.for_features(NAMES, plain)[1], given.rounds, given.seed)
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
