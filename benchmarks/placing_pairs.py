"""Networks on chips that rules for placing are trained and tested on, with what a long search reaches on each.

A pair is a network and a chip around `nnpi`, or around another chip file: capacities of all memories but the slowest
between x 2^-1.5 and x 2^1.5, bandwidths between x 2^-1 and x 2^1, the clock between x 2^-1.5 and x 2^1.5; one of five
is the chip file as it is. Of the networks, if none are given, six in ten are of `mcm87`, the others sizes of ResNets,
VGG, AlexNet, MobileNet, U-Net, BERT and GPT-2. `best` is the cost of an annealing from the best of the compiler's
rules. Pairs with less than 0.5 % between the default rule and that are left out: they say nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hwsim.nnpi.annealing import anneal
from hwsim.nnpi.chip import Chip, chip_with, load_chip, spread
from hwsim.nnpi.latency import latencies
from hwsim.nnpi.placer import DEFAULT_RULE, RULES, NnpiPlacer, compile_map
from hwsim.nnpi.tables import Tables, build_tables
from policies.ranker import free_share
from workloads.load import load
from workloads.zoo.mcm87 import MCM87, family_of

LEAST, LARGEST = 0.005, 1200
"""Smallest gain, as a logarithm, of a pair that counts; most ops of a network."""


def sizes(rng: np.random.Generator) -> str:
    """A network of the zoo in another size."""
    pick = rng.choice
    return str(
        pick(
            [
                f"resnet18:batch={rng.integers(1, 5)}",
                f"resnet34:resolution={pick([160, 192, 224, 256, 320])}",
                f"resnet50:width={pick([48, 64, 80, 96])}",
                f"vgg16:resolution={pick([128, 160, 224])}",
                f"alexnet:batch={rng.integers(1, 9)}",
                f"mobilenet_v2:resolution={pick([160, 224, 320, 448])}",
                f"unet:resolution={pick([316, 444, 572])}",
                f"bert:layers={rng.integers(2, 13)}:length={pick([32, 64, 128, 256])}",
                f"bert:layers={rng.integers(2, 9)}:hidden=512:heads=8:intermediate=2048",
                f"gpt2:layers={rng.integers(2, 9)}:length={pick([32, 64, 128, 256])}:vocabulary={pick([8000, 16000])}",
            ]
        )
    )


def decoder(rng: np.random.Generator) -> str:
    """A decoder or encoder of small layers, whose activations are large where its sequence is long."""
    heads, length = int(rng.choice([2, 4, 8])), int(rng.choice([32, 128, 256, 512]))
    hidden, layers = heads * int(rng.choice([32, 64])), int(rng.integers(1, 25))
    if rng.random() < 0.5:
        return f"bert:layers={layers}:hidden={hidden}:heads={heads}:intermediate={4 * hidden}:length={length}"
    shape = f"heads={heads}:kv_heads={heads // 2}:hidden={hidden}:intermediate={2 * hidden}"
    return f"llama3_8b:layers={layers}:{shape}:vocabulary=1000:length={length}"


def chip_of(factors: list[float], name: str = "nnpi") -> Chip:
    """A chip whose bandwidths, capacities but the first, and clock are times 2^factor; no factors: as it is."""
    chip = load_chip(name)
    return chip_with(chip, factors) if factors else chip


class Case(NamedTuple):
    """A network on a chip, and the key of its annealing."""

    workload: str
    factors: list[float]
    key: int
    chip: str = "nnpi"


@dataclass(frozen=True)
class Pair:
    """A network on a chip; costs in seconds of the default rule, of the best of the rules, and of an annealing."""

    workload: str
    factors: list[float]
    base: float
    best_rule: float
    best: float
    chip: str = "nnpi"

    @property
    def headroom(self) -> float:
        """What can be gained over the default rule, as a logarithm."""
        return float(np.log(self.base / self.best))

    @property
    def family(self) -> str:
        """See `family_of`."""
        return family_of(self.workload)

    @cached_property
    def _tables(self) -> Tables:
        return build_tables(load(self.workload), chip_of(self.factors, self.chip))._replace(sigma=0.0)

    @cached_property
    def _placer(self) -> NnpiPlacer:
        return NnpiPlacer(self._tables)

    def regret(self, rules: np.ndarray) -> np.ndarray:
        """The log cost of rules [B, P] over the best known, float64 [B]."""
        from policies.places import Places

        placer = self._placer
        places = Places.of(placer, (len(self._tables.weight_bytes), 2))
        rules = rules.astype(np.float32)
        scores = places.linear(rules[:, :-1].reshape(len(rules), 2, 2, -1))
        maps = placer.place(scores, free_share(rules[:, -1]))
        cost = latencies(self._tables, np.ascontiguousarray(maps), np.zeros(len(maps)))
        return np.asarray(np.log(cost / self.best))


def drawn(seed: int, count: int, workloads: Sequence[str] = (), chip: str = "nnpi") -> Iterator[Case]:
    """Networks, of those given or of the zoo, on chips around one."""
    rng, largest = np.random.default_rng(seed), spread(len(load_chip(chip).memories))
    names = sorted(workloads or MCM87)
    for _ in range(count):
        workload = str(rng.choice(names)) if workloads or rng.random() < 0.6 else sizes(rng)
        factors = rng.uniform(-largest, largest).round(4).tolist() if rng.random() < 0.8 else []
        yield Case(workload, factors, int(rng.integers(1 << 40)), chip)


def reach(tables: Tables, key: int, steps: int, restarts: int) -> tuple[float, float, float]:
    """Seconds of the default rule, of the best of the rules, and of an annealing from that."""
    maps = np.stack([compile_map(tables, rule) for rule in RULES.values()])
    costs = latencies(tables, maps, np.zeros(len(maps)))
    best = int(np.argmin(costs))
    _, cost = anneal(tables, maps[best], steps=steps, key=key, restarts=restarts)
    return float(costs[list(RULES).index(DEFAULT_RULE)]), float(costs[best]), float(cost)


def measured(case: Case, steps: int) -> dict[str, Any] | None:
    """A pair as a line of a file; None if the network is too large, or does not fit on the chip."""
    from workloads.errors import InputError

    try:
        tables = build_tables(load(case.workload), chip_of(case.factors, case.chip))._replace(sigma=0.0)
    except InputError:
        return None
    if len(tables.weight_bytes) > LARGEST:
        return None
    base, best_rule, best = reach(tables, case.key, steps, restarts=2)
    return {
        "workload": case.workload,
        "chip": case.chip,
        "factors": case.factors,
        "base": base,
        "best_rule": best_rule,
        "best": best,
    }


def _measured(given: tuple[Case, int]) -> dict[str, Any] | None:
    return measured(*given)


def write_pairs(path: Path, cases: Iterable[Case], steps: int, workers: int) -> None:
    """Measure cases and write a line for each that fits."""
    with ProcessPoolExecutor(workers) as pool, path.open("w") as file:
        for found in pool.map(_measured, [(case, steps) for case in cases], chunksize=8):
            if found is not None:
                file.write(json.dumps(found) + "\n")


def read_pairs(path: Path) -> list[Pair]:
    """The pairs of a file on which something can be gained."""
    pairs = [Pair(**json.loads(line)) for line in path.read_text().splitlines()]
    found = [pair for pair in pairs if pair.headroom > LEAST]
    if not found:
        raise SystemExit(
            f"{path}: expected pairs on which {LEAST:.1%} can be gained, found none among {len(pairs)}"
        )
    return found
