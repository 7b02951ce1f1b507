"""A board that is like the chip file `nnpi`, but not quite, for trying things out without one:

    egrl run … --evaluator "python examples/twin/pretend_board.py WORKLOAD [SEED]"

Its bandwidths and launch overhead are off by up to a third, each op's compute by a fifth, and measurements by 1 %.
"""

import json
import sys

import numpy as np

from hwsim.family import Model
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiProblem
from workloads.load import load

workload, seed = sys.argv[1], int((sys.argv[2:] or ["0"])[0])
problem, rng = NnpiProblem(load(workload), load_chip("nnpi")), np.random.default_rng(seed)
family, memories = problem.family, list(problem.space.labels[0])
off = [
    0.2 * rng.normal()
    if p.own
    else rng.uniform(-0.33, 0.33)
    if p.name.startswith(("bandwidth", "launch"))
    else 0.0
    for p in family.parameters
]
board = Model(
    family.nominal, np.array([factor / p.spread for factor, p in zip(off, family.parameters, strict=True)])
)

for line in sys.stdin:
    request = json.loads(line)
    rows = [
        [memories.index(node[head]) if head in node else -1 for head in problem.space.heads]
        for node in request["mapping"]
    ]
    seconds = family.predict(board, np.array([rows], np.int16))[0] * np.exp(0.01 * rng.normal())
    print(json.dumps({"id": request["id"], "latency_s": float(seconds)}), flush=True)
