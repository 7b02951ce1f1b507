"""Schedules of Vela's Python core, searched and drawn: `python vela_schedules.py OUT.jsonl MODEL…`.

Prints and appends a line of JSON for each model on each device (`DEVICES` of the problem): cycles of Vela's own
schedule, and of the best that each method finds with as many schedules. `--evals`, `--seeds`, `--methods
annealing,egrl,random`, `--devices 0,1`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Sequence
from pathlib import Path

import egrl
from egrl_vela.compiler import Target
from egrl_vela.problem import DEVICES, VelaConfig, VelaProblem
from workloads.errors import InputError


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print a line for each model and device."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--evals", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--methods", default="annealing,egrl,random")
    parser.add_argument("--devices", default="0")
    args = parser.parse_args(argv)
    for model in args.models:
        data = Path(model).read_bytes()
        for place in map(int, args.devices.split(",")):
            names = DEVICES[place].split(":")
            row = {"model": Path(model).name, "bytes": len(data), "device": DEVICES[place]}
            row["sha256"] = hashlib.sha256(data).hexdigest()
            try:
                problem = VelaProblem(Target(model, names[0], names[1], names[2]), VelaConfig())
            except InputError as error:
                row["error"] = str(error)
            else:
                row |= {"ops": len(problem.ops), "own": problem.baseline.cost, "evals": args.evals}
                for method in args.methods.split(","):
                    for seed in range(args.seeds):
                        start = time.monotonic()
                        found = egrl.search(problem, method=method, evals=args.evals, seed=seed)
                        seconds = round(time.monotonic() - start, 1)
                        row[f"{method}-{seed}"] = {"speedup": found.speedup, "seconds": seconds}
                        problem._kept.clear()
            line = json.dumps(row)
            print(line, flush=True)
            with Path(args.out).open("a", encoding="utf-8") as file:
                file.write(line + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
