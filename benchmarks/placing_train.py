"""The linear rules that ship: trained on networks x chips.

    python -m benchmarks.placing_train pairs -o PAIRS.jsonl [--count 1400 --seed 1 --steps 60000]
        [--workloads a,b.onnx,… --chip CHIP]
    python -m benchmarks.placing_train rules PAIRS.jsonl [DRAWN.pickle --drawn 600] -o RULES.json [--rules 24]

A second file has instances that `benchmarks.placing_network draw` has drawn, of which so many of one network each are
trained on beside the pairs. `rules --begin FILE` keeps the rules of a file and adds the best others.

The first rule is the best alone: evolution strategies with mirrored perturbations and Adam on random pairs, the
objective being the log cost over the best known, cut at 0.5, over the root of what can be gained. Each further one is
the best addition: of candidates that CMA-ES found for one pair each (two starts: the rule by hand, and the first rule),
the one that lowers the mean of the smallest regrets the most.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
from deap import cma

from benchmarks.placing_pairs import drawn, read_pairs, write_pairs
from benchmarks.placing_varied import read
from egrl.methods.es import Ascent
from hwsim.nnpi.place_features import FEATURE_NAMES
from policies.ranker import by_hand

CUT, SMALL = 0.5, 0.02
"""Largest regret that counts, and what is added to the headroom before its root."""
BY_HAND = by_hand(FEATURE_NAMES, 2).astype(np.float64)
CHILDREN, EVALUATIONS = 20, 500
ROUNDS, PAIRS_A_ROUND, HALF = 900, 48, 16


class Subject(Protocol):
    """What rules are trained on: `Pair`, or another problem with a placer."""

    @property
    def family(self) -> str: ...

    @property
    def headroom(self) -> float: ...

    def regret(self, rules: np.ndarray) -> np.ndarray: ...


Pairs = Sequence[Subject]


def _weight(pairs: Pairs) -> np.ndarray:
    return np.array([(pair.headroom + SMALL) ** -0.5 for pair in pairs])


def best_alone(pairs: Pairs, start: np.ndarray, rounds: int = ROUNDS, seed: int = 0) -> np.ndarray:
    """The rule float64 [P] with the least mean regret; the climb begins at `start`."""
    rng = np.random.default_rng(seed)
    rule = start.astype(np.float64)
    ascent, weight = Ascent(len(rule)), _weight(pairs)
    for round_ in range(rounds):
        left = 1 - round_ / rounds
        sigma, rate = 0.03 + 0.17 * left, 0.002 + 0.05 * left
        noise = rng.normal(size=(HALF, len(rule)))
        around = np.concatenate([rule + sigma * noise, rule - sigma * noise])
        chosen = rng.choice(len(pairs), min(PAIRS_A_ROUND, len(pairs)), replace=False)
        loss = np.sum([np.minimum(pairs[k].regret(around), CUT) * weight[k] for k in chosen], axis=0)
        rank = loss.argsort().argsort() / (len(loss) - 1) - 0.5
        gradient = (rank[HALF:] - rank[:HALF]) @ noise / (2 * HALF)
        rule = rule + ascent.step(gradient.astype(np.float32), rate)
    return rule


def best_for(pair: Subject, start: np.ndarray, seed: int, evaluations: int = EVALUATIONS) -> np.ndarray:
    """The rule that CMA-ES finds for one pair."""

    class Vector(np.ndarray):
        fitness: float

    rng = np.random.default_rng(seed)
    strategy = cma.Strategy(start, 0.3, lambda_=CHILDREN)
    best = (np.inf, start)
    for _ in range(evaluations // CHILDREN):
        around = strategy.centroid + strategy.sigma * rng.normal(size=(CHILDREN, len(start))) @ strategy.BD.T
        regret = pair.regret(around)
        population = [row.view(Vector) for row in around]
        for child, value in zip(population, regret.tolist(), strict=True):
            child.fitness = -value
        strategy.update(population)
        if regret.min() < best[0]:
            best = (float(regret.min()), around[int(np.argmin(regret))])
    return best[1]


def candidates_of(pair: Subject, starts: Sequence[np.ndarray]) -> np.ndarray:
    """A rule for one pair from each start, [S, P]."""
    return np.stack([best_for(pair, start, seed) for seed, start in enumerate(starts, 1)])


def additions(regret: np.ndarray, weight: np.ndarray, count: int, begin: int = 1) -> list[int]:
    """The columns of regrets [pairs, candidates] that together have the least mean, each the best addition.

    The first `begin` columns are always among them, as the first.
    """
    regret = np.minimum(regret, CUT)
    chosen, smallest = list(range(begin)), regret[:, :begin].min(axis=1)
    while len(chosen) < min(count, regret.shape[1]):
        mean = (np.minimum(regret, smallest[:, None]) * weight[:, None]).mean(axis=0)
        mean[chosen] = np.inf
        chosen.append(int(np.argmin(mean)))
        smallest = np.minimum(smallest, regret[:, chosen[-1]])
    return chosen


class Training:
    """Candidates of all pairs, and their regrets on all pairs."""

    def __init__(
        self,
        pairs: Pairs,
        workers: int,
        hand: np.ndarray = BY_HAND,
        rounds: int = ROUNDS,
        begin: np.ndarray | None = None,
    ) -> None:
        """`hand`: the rule float64 [P] that climbs begin at; `rounds`: of the climb to the first rule.

        `begin`: rules float64 [K, P] that are kept, instead of a first one.
        """
        self.pairs, self._hand, self._rounds, self._begin = pairs, hand, rounds, begin
        starts = [best_alone(pairs, hand, rounds) if begin is None else begin[0], hand]
        with ProcessPoolExecutor(workers) as pool:
            found = list(pool.map(partial(candidates_of, starts=starts), pairs, chunksize=4))
            self.candidates = np.concatenate(found)
            self.regret = np.stack(
                list(pool.map(partial(_regret, rules=self.candidates), pairs, chunksize=4))
            )

    def rules(self, count: int) -> np.ndarray:
        """Rules float64 [count, P]."""
        first = self._begin
        if first is None:
            first = best_alone(self.pairs, self._hand, self._rounds)[None]
        own = np.array([pair.regret(first) for pair in self.pairs])
        regret = np.concatenate([own, self.regret], axis=1)
        rules = np.concatenate([first, self.candidates])
        return rules[additions(regret, _weight(self.pairs), count, len(first))]


def _regret(pair: Subject, rules: np.ndarray) -> np.ndarray:
    return pair.regret(rules)


def document(rules: np.ndarray, names: Sequence[str] = FEATURE_NAMES, heads: int = 2) -> str:
    """Rules as the package keeps them."""
    rows = ",\n".join("[" + ",".join(f"{value:.5g}" for value in row) + "]" for row in rules)
    features = json.dumps(list(names))
    return f'{{"kind": "rules", "version": 1, "heads": {heads},\n"features": {features},\n"rules": [\n{rows}\n]}}\n'


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("pairs", "rules"))
    parser.add_argument("pairs", nargs="*", type=Path)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--count", type=int, default=1400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=60_000)
    parser.add_argument(
        "--workloads", default="", help="names or files, with commas between; none: of the zoo"
    )
    parser.add_argument("--chip", default="nnpi", help="a name or a file")
    parser.add_argument("--drawn", type=int, default=600)
    parser.add_argument("--begin", type=Path, help="rules that are kept as the first ones")
    parser.add_argument("--rules", type=int, default=24)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    if given.what == "pairs":
        cases = drawn(
            given.seed, given.count, [name for name in given.workloads.split(",") if name], given.chip
        )
        write_pairs(given.output, cases, given.steps, given.workers)
        return
    pairs: list[Subject] = list(read_pairs(given.pairs[0]))
    for path in given.pairs[1:]:
        pairs += [instance for instance in read(path) if instance.family][: given.drawn]
    begin = np.array(json.loads(given.begin.read_text())["rules"]) if given.begin else None
    training = Training(pairs, given.workers, begin=begin)
    given.output.write_text(document(training.rules(given.rules)))


if __name__ == "__main__":
    main()
