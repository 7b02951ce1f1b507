"""Drawn networks on drawn chips to train a ranking network on: slices, scaled copies and joins of the zoo's.

A network of `benchmarks.placing_pairs.drawn`'s kind is cut to a slice (a third of them), its bytes of weights, bytes
of activations and compute times are scaled, as a whole and for half of them also op by op, and a quarter are joined
with another one. So sizes, pressure and surroundings differ from all the networks that anybody wrote down, while the
graphs stay those of real ones. Four in ten are on the chip file as it is. The same is done to invented networks. For
chips of other kinds, half of the networks are invented, and every chip is.
"""

from __future__ import annotations

import pickle
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.placing_invented import invented, invented_chip
from benchmarks.placing_pairs import LARGEST, LEAST, chip_of, decoder, family_of, reach, sizes
from egrl.methods.rank.gradient import regret
from hwsim.nnpi.chip import spread
from hwsim.nnpi.latency import latencies
from hwsim.nnpi.place_features import FEATURE_NAMES
from hwsim.nnpi.placer import NnpiPlacer
from hwsim.nnpi.tables import Tables, build_tables, slowest_demand_bytes
from policies.network import LINEAR, NetworkConfig
from policies.places import Places
from policies.ranker import Rankers
from workloads.errors import InputError
from workloads.load import load
from workloads.workload import Workload
from workloads.zoo.mcm87 import MCM87

STEPS = 15_000
ZOO, INVENTED, CHIPS = "zoo", "invented", "chips"
KINDS = {ZOO: 17, INVENTED: 29, CHIPS: 37}
"""Of drawn instances: networks of the zoo, or of `benchmarks.placing_invented`, on `nnpi` or around it; both kinds of
network on invented chips. Each has random numbers of its own."""
SPREAD = spread(3)
"""Of the factors of `nnpi`'s variants."""


@dataclass
class Instance:
    """A network on a chip, with seconds of the default rule, of the best of the rules, and of an annealing."""

    name: str
    families: list[str]
    tables: Tables
    base: float
    best_rule: float
    best: float

    @property
    def headroom(self) -> float:
        """What can be gained over the default rule, as a logarithm."""
        return float(np.log(self.base / self.best))

    @cached_property
    def placer(self) -> NnpiPlacer:
        """Of the tables."""
        return NnpiPlacer(self.tables)

    @cached_property
    def places(self) -> Places:
        """What networks read."""
        tables = self.tables
        target = np.repeat(np.arange(len(tables.weight_bytes)), np.diff(tables.edge_start))
        edges = np.stack([tables.edge_source, target])
        return Places.of(self.placer, (len(tables.weight_bytes), 2), edges)

    def costs(self, scores: NDArray[np.float32], free: NDArray[np.float64]) -> NDArray[np.float64]:
        """Seconds float64 [B] of the mappings that scores float32 [B, T, L] place."""
        maps = self.placer.place(np.ascontiguousarray(scores), free)
        return np.asarray(latencies(self.tables, maps, np.zeros(len(maps))))

    @property
    def family(self) -> str:
        """Of the only network; "" if two are joined."""
        return self.families[0] if len(self.families) == 1 else ""

    def costs_of_rules(self, rules: NDArray[np.float32]) -> NDArray[np.float64]:
        """Seconds float64 [B] of what linear rules [B, P] place."""
        return self.costs(*Rankers(NetworkConfig(name=LINEAR), FEATURE_NAMES, 2).scores(rules, self.places))

    def regret(self, rules: NDArray[np.float64]) -> NDArray[np.float64]:
        """The log cost of linear rules [B, P] over the best known, float64 [B]."""
        return np.asarray(np.log(self.costs_of_rules(rules.astype(np.float32)) / self.best))

    def losses(self, scores: NDArray[np.float32], free: NDArray[np.float64]) -> NDArray[np.float64]:
        """The log regret of such mappings, cut, over the root of what can be gained."""
        return regret(self.costs(scores, free) / self.base, self.best / self.base)


def scaled(tables: Tables, weights: Any, activations: Any, compute: Any) -> Tables:
    """Tables whose bytes and seconds are times factors float64 [N] of each op; what has bytes keeps some."""

    def times(values: NDArray[np.int64], by: Any) -> NDArray[np.int64]:
        return np.where(values > 0, np.maximum(np.rint(values * by), 1), 0).astype(np.int64)

    return tables._replace(
        weight_bytes=times(tables.weight_bytes, weights),
        weight_read_bytes=times(tables.weight_read_bytes, weights),
        activation_bytes=times(tables.activation_bytes, activations),
        written_bytes=times(tables.written_bytes, activations),
        edge_bytes=times(tables.edge_bytes, activations[tables.edge_source]),
        external_bytes=times(tables.external_bytes, activations),
        mac_s=tables.mac_s * compute,
        dsp_s=tables.dsp_s * compute,
        compute_s=tables.compute_s * compute,
    )


OF_OPS = [
    "weight_bytes",
    "activation_bytes",
    "weight_read_bytes",
    "written_bytes",
    "steps",
    "passes",
    "pass_bytes",
    "rearranges",
    "mac_s",
    "dsp_s",
    "compute_s",
    "measured",
]


def sliced(tables: Tables, first: int, end: int) -> Tables:
    """The ops first .. end - 1: what they read of others comes from outside, what others read of them is an output."""
    ops = len(tables.weight_bytes)
    target = np.repeat(np.arange(ops), np.diff(tables.edge_start))
    here = (target >= first) & (target < end)
    inside, outside = here & (tables.edge_source >= first), here & (tables.edge_source < first)
    external = tables.external_bytes.copy()
    np.add.at(external, target[outside], tables.edge_bytes[outside])
    is_output = tables.is_output[first:end].copy()
    is_output[tables.last_use[first:end] >= end] = True
    kept = target[inside] - first
    return _with_uses(
        tables._replace(
            **{name: getattr(tables, name)[first:end] for name in OF_OPS},
            external_bytes=external[first:end],
            is_output=is_output,
            edge_source=tables.edge_source[inside] - first,
            edge_bytes=tables.edge_bytes[inside],
            edge_start=np.searchsorted(kept, np.arange(end - first + 1)).astype(np.int64),
        )
    )


def joined(one: Tables, other: Tables) -> Tables:
    """One network after the other on the chip of the first."""
    ops = len(one.weight_bytes)
    both = [*OF_OPS, "external_bytes", "is_output", "edge_bytes"]
    return _with_uses(
        one._replace(
            **{name: np.concatenate([getattr(one, name), getattr(other, name)]) for name in both},
            edge_source=np.concatenate([one.edge_source, other.edge_source + ops]),
            edge_start=np.concatenate([one.edge_start, other.edge_start[1:] + one.edge_start[-1]]),
        )
    )


def _with_uses(tables: Tables) -> Tables:
    """Tables whose last uses follow from the edges."""
    ops = len(tables.weight_bytes)
    last = np.arange(ops)
    np.maximum.at(last, tables.edge_source, np.repeat(np.arange(ops), np.diff(tables.edge_start)))
    by_use = np.argsort(last, kind="stable")
    dying = by_use[tables.activation_bytes[by_use] > 0].astype(np.int64)
    start = np.searchsorted(last[dying], np.arange(ops + 1)).astype(np.int64)
    return tables._replace(last_use=last.astype(np.int64), free_start=start, free_op=dying)


def _network(rng: np.random.Generator, kind: str) -> tuple[str, Workload]:
    """A network, and its name."""
    if kind == INVENTED or (kind == CHIPS and rng.random() < 0.5):
        return INVENTED, invented(int(rng.integers(2**31)))
    if kind == CHIPS and rng.random() < 0.25:
        name = decoder(rng)
    else:
        name = str(rng.choice(sorted(MCM87))) if rng.random() < 0.6 else sizes(rng)
    return name, load(name)


def varied(seed: int, kind: str = ZOO) -> Instance | None:
    """The instance of a seed, of a kind of `KINDS`; None if it is too large, does not fit, or has little to gain."""
    rng = np.random.default_rng([KINDS[kind], seed])

    def part() -> tuple[str, Tables]:
        name, workload = _network(rng, kind)
        tables = build_tables(workload, chip)._replace(sigma=0.0)
        ops = len(tables.weight_bytes)
        if ops > LARGEST:
            raise InputError("too large")
        if ops > 30 and rng.random() < 0.35:
            length = int(ops * rng.uniform(0.3, 0.9))
            first = int(rng.integers(0, ops - length + 1))
            tables = sliced(tables, first, first + length)
        ops = len(tables.weight_bytes)
        if rng.random() < 0.75:
            whole = rng.uniform(-1.5, 1.5, 3)
            spread = rng.choice([0.0, 0.0, 0.3, 0.6])
            tables = scaled(tables, *np.exp2(whole[:, None] + rng.normal(size=(3, ops)) * spread))
        return name, tables

    if kind == CHIPS:
        chip = invented_chip(int(rng.integers(2**31)))
    else:
        chip = chip_of(rng.uniform(-SPREAD, SPREAD).round(4).tolist() if rng.random() < 0.6 else [])
    try:
        name, tables = part()
        families = [family_of(name)]
        if rng.random() < 0.25:
            second, more = part()
            if len(more.weight_bytes) + len(tables.weight_bytes) <= LARGEST:
                tables, name = joined(tables, more), f"{name}+{second}"
                families.append(family_of(second))
    except InputError:
        return None
    if slowest_demand_bytes(tables) > tables.capacity_bytes[0]:
        return None
    found = measured(name, families, tables, seed, STEPS)
    return found if found.headroom > LEAST else None


def measured(
    name: str, families: list[str], tables: Tables, key: int, steps: int, restarts: int = 1
) -> Instance:
    """An instance, with what an annealing from the best rule reaches."""
    return Instance(name, families, tables, *reach(tables, key, steps, restarts))


def write(path: Path, seeds: range, kind: str, workers: int) -> None:
    """Write the instances of seeds, of a kind of `KINDS`, to a file."""
    begun = time.perf_counter()
    with ProcessPoolExecutor(workers) as pool:
        drawn = pool.map(partial(varied, kind=kind), seeds, chunksize=8)
        found = [instance for instance in drawn if instance is not None]
    path.write_bytes(pickle.dumps(found))
    print(f"{len(found)} of {len(seeds)} seeds, {time.perf_counter() - begun:.0f} s", file=sys.stderr)


def read(path: Path) -> list[Instance]:
    """The instances of a file that `write` made here: never one of a stranger's (it is a pickle)."""
    found: list[Instance] = pickle.loads(path.read_bytes())
    return found
