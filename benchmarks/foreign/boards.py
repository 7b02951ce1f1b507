"""Boards for the twin's benchmark: the chip file's equations with other constants, and simulators of another structure.

    python -m benchmarks.foreign.boards KIND SEED WORKLOAD.json [NOISE]     a board behind `--evaluator`

Kinds `a` to `d` are members of the family around the chip file, every constant drawn from the seed: (a) bandwidths,
launch and compute off by up to 35 %, and one effect of the file missing; (b) and 20 % error of each op's compute;
(c) and 15 % error of each tensor's traffic; (d) as (c) with 3 % noise. `queues` and `droop` share nothing with it.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.foreign import droop, queues
from benchmarks.foreign.network import read_network
from hwsim.family import Model
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiProblem
from workloads.load import load
from workloads.serialize import to_json

FAMILIAR, FOREIGN = ("a", "b", "c", "d"), ("queues", "droop")
OFF = 0.35
MISSING = ("moves", "prefetch", "contention", "overhead")

Board = Callable[[np.ndarray], float]
"""Noise-free seconds of one valid mapping int16 [N, 2]."""
Profiler = Callable[[np.ndarray], np.ndarray]
"""Noise-free seconds of each op, float64 [N], of one valid mapping int16 [N, 2]."""


def noise_of(kind: str) -> float:
    """Standard deviation of the logarithm of a measurement."""
    return 0.03 if kind == "d" else 0.01


def familiar(problem: NnpiProblem, kind: str, seed: int) -> Model:
    """The member of the family that a board of this kind is."""
    rng = np.random.default_rng([seed, FAMILIAR.index(kind)])
    family, theta = problem.family, []
    for parameter in family.parameters:
        log_factor = 0.0
        if (
            not parameter.own and parameter.name.split()[0] in ("bandwidth", "launch")
        ) or parameter.name == "compute":
            log_factor = rng.uniform(-OFF, OFF)
        elif parameter.own and parameter.name.startswith("compute") and kind != "a":
            log_factor = 0.2 * rng.normal()
        elif parameter.own and not parameter.name.startswith("compute") and kind in "cd":
            log_factor = 0.15 * rng.normal()
        theta.append(log_factor / parameter.spread)
    return Model(family.nominal - {MISSING[rng.integers(len(MISSING))]}, np.array(theta))


def board(problem: NnpiProblem, kind: str, seed: int) -> Board:
    """A noise-free board."""
    if kind in FAMILIAR:
        model, family = familiar(problem, kind, seed), problem.family
        return lambda mapping: float(family.predict(model, np.ascontiguousarray(mapping)[None])[0])
    profile = profiler(problem, kind, seed)
    return lambda mapping: float(profile(mapping).sum())


def profiler(problem: NnpiProblem, kind: str, seed: int) -> Profiler:
    """What each op of a board takes, without noise."""
    if kind in FAMILIAR:
        model, family = familiar(problem, kind, seed), problem.family
        return lambda mapping: family.part_times(model, np.ascontiguousarray(mapping)[None]).seconds[0]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "workload.json"
        path.write_text(problem.files()["workload.json"])
        network = read_network(path)
    if kind == "queues":
        drawn = queues.draw(network, seed)
        return lambda mapping: queues.op_seconds(network, drawn, mapping)
    drooping = droop.draw(network, seed)
    return lambda mapping: droop.op_seconds(network, drooping, mapping)


def serve(kind: str, seed: int, workload: str, noise: float) -> None:
    """Answer requests of `--evaluator` on stdin, a line of JSON each."""
    problem = NnpiProblem(load(workload), load_chip("nnpi"))
    measure, rng = board(problem, kind, seed), np.random.default_rng([seed, 99])
    memories = {name: number for number, name in enumerate(problem.space.labels[0])}
    for line in sys.stdin:
        request = json.loads(line)
        rows = [
            [memories.get(node.get(head, ""), -1) for head in problem.space.heads]
            for node in request["mapping"]
        ]
        seconds = measure(np.array(rows, np.int16)) * float(np.exp(noise * rng.normal()))
        print(json.dumps({"id": request["id"], "latency_s": seconds}), flush=True)


def write_workload(name: str, path: Path) -> None:
    """The workload file of a network of the zoo."""
    path.write_text(to_json(load(name)))


if __name__ == "__main__":
    kind, seed, workload, *noise = sys.argv[1:]
    serve(kind, int(seed), workload, float(noise[0]) if noise else noise_of(kind))
