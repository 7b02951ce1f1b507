"""What `egrl calibrate --measure` is worth: mappings that are chosen against mappings that are drawn.

    python -m benchmarks.design [--workloads resnet50,bert] [--boards a:1,c:2,c:3,queues:1] [--start 20] [--more 20]

On each board, with its noise: so many mappings near the rules are measured, then more, chosen by
`egrl.calibrate.calibration` or drawn from the same candidates. Shown are the mean share of the prior's spread that is
left of the board's parameters, and the root mean square error of the log cost of 200 mappings held out.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

from benchmarks.foreign.boards import board, noise_of
from egrl.calibrate import calibration, fit
from egrl.calibrate.fit import Network
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiProblem
from workloads.load import load

UNSEEN = 200


def near_rules(problem: NnpiProblem, count: int, seed: int) -> np.ndarray:
    """`count` valid mappings int16 [count, N, 2], rules with a fifth of their decisions drawn anew."""
    rng, rules = np.random.default_rng(seed), list(problem.family.first().values())
    rows = np.stack([rules[k % len(rules)] for k in range(count)])
    changed = np.where(rng.random(rows.shape) < 0.2, rng.integers(0, 3, rows.shape), rows)
    return problem.rectify(changed.astype(np.int16))


def compare(problem: NnpiProblem, kind: str, seed: int, start: int, more: int) -> list[tuple[float, float]]:
    """Spread left and error: of the start, with mappings chosen, with mappings drawn."""
    exact, rng = board(problem, kind, seed), np.random.default_rng(seed)

    def measure(mapping: np.ndarray, noise: float) -> np.ndarray:
        seconds = np.array([exact(one) for one in mapping])
        return np.asarray(seconds * np.exp(noise * rng.normal(size=len(seconds))))

    first, unseen = near_rules(problem, start, seed), near_rules(problem, UNSEEN, 99)
    known = Network(problem.about.workload, problem, problem.family, first, measure(first, noise_of(kind)))
    others = calibration.candidates(known, calibration.CANDIDATES, np.random.default_rng(5))
    drawn = others[np.random.default_rng(6).choice(len(others), more, replace=False)]
    truth, found = np.log(measure(unseen, 0.0)), []
    for rows in (first[:0], calibration.choose([known], more, 0)[0], drawn):
        cost = np.concatenate([known.cost, measure(rows, noise_of(kind))])
        fitted = fit.fit_of([replace(known, mapping=np.concatenate([first, rows]), cost=cost)], None)
        shared = np.array([p.shared for p in fitted.stack.parameters])
        error = fitted.posterior.predict(fitted.stack.rows([unseen]))[0] - truth
        found.append((float(fitted.learned()[shared].mean()), float(np.sqrt(np.mean(error**2)))))
    return found


def main() -> None:
    """Print a line a board."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workloads", default="resnet50,bert")
    parser.add_argument("--boards", default="a:1,c:2,c:3,queues:1")
    parser.add_argument("--start", type=int, default=20)
    parser.add_argument("--more", type=int, default=20)
    options = parser.parse_args()
    print("| board | spread left: start | chosen | drawn | error: start | chosen | drawn |")
    for name in options.workloads.split(","):
        problem = NnpiProblem(load(name), load_chip("nnpi"))
        for kind, seed in (word.split(":") for word in options.boards.split(",")):
            found = compare(problem, kind, int(seed), options.start, options.more)
            cells = [f"{left:.3f}" for left, _ in found] + [f"{error:.4f}" for _, error in found]
            print(f"| {name} {kind} {seed} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
