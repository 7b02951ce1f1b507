"""The TPU compiler as a board: how long XLA's program takes once its placer was told another order of buffers.

    egrl run --problem mmap --workload step.hlo --chip tpuv5e --requests 25 \
        --evaluator "python plugins/hlo/examples/tpu/board.py step.py" --set evaluator.timeout_floor_s=900 \
        --set evaluator.timeout_s=900 --set evaluator.exact=true

`step.py` is yours. It has `lowered()`, which gives `jax.jit(step).lower(…)` for a TPU that is there, or for a
described one (`jax.experimental.topologies`), and may have `measure(compiled)`, which runs it on a TPU and gives
seconds; without it XLA's own estimates are simulated: its cycles, and what instructions wait for copies. Needs
`jax[tpu]`, which is under Google Cloud's terms, and some seconds to minutes a measurement.

A mapping is measured as the compiler can be told of it (`egrl_hlo/tpu/overrides.py`): two that differ in little may be
one to XLA. The first that is asked for is the baseline, XLA's own placement: what others do otherwise is told.
"""

import importlib.util
import json
import sys
from pathlib import Path

from egrl_hlo import of_text
from egrl_hlo.tpu.overrides import options, overrides
from hwsim.mmap.chip import load_chip
from hwsim.mmap.device import latency_by_step_s
from hwsim.mmap.game import ACTIONS
from hwsim.mmap.problem import MmapConfig, MmapProblem


def module_of(file):
    """The Python file of the user, which imports what lies beside it."""
    sys.path.insert(0, str(Path(file).resolve().parent))
    spec = importlib.util.spec_from_file_location("step", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Board:
    """Compiles a function with options, and says how long the program takes."""

    def __init__(self, file, chip):
        self.step, self.chip = module_of(file), load_chip(chip)
        self.lowered = self.step.lowered()
        self.known, self.before = {}, None
        problem = self.problem(self.compiled({}))
        self.program, self.names = problem.program, problem.space.nodes

    def compiled(self, chosen):
        return self.lowered.compile(compiler_options=chosen)

    def problem(self, compiled):
        program = of_text(compiled.as_text(), "step", "", "the compiler")
        return MmapProblem(program, self.chip, MmapConfig(price="compiler"))

    def measure(self, mapping):
        """Seconds, and those of each instruction where they are estimated."""
        names = [node["node"] for node in mapping]
        if names != list(self.names):
            raise ValueError(
                f"expected the {len(self.names)} buffers of this function, found {len(names)} others"
            )
        actions = [ACTIONS.index(node["action"]) if "action" in node else -1 for node in mapping]
        self.before = actions if self.before is None else self.before
        chosen = options(overrides(self.program, self.before, actions))
        key = json.dumps(chosen)
        if key not in self.known:
            self.known[key] = self.answer(chosen)
        return self.known[key]

    def answer(self, chosen):
        compiled = self.compiled(chosen)
        if hasattr(self.step, "measure"):
            return {"latency_s": self.step.measure(compiled)}
        problem = self.problem(compiled)
        took_s = latency_by_step_s(problem.tables, problem.own_layout)
        return {
            "latency_s": problem.baseline.cost,
            "op_seconds": dict(zip(problem.parts.names, took_s.tolist(), strict=True)),
        }


def main(file, chip="tpuv5e"):
    board = Board(file, chip)
    for line in sys.stdin:
        request = json.loads(line)
        answer = {"id": request["id"]}
        try:
            answer |= board.measure(request["mapping"])
        except Exception as error:
            answer["error"] = str(error).split("\n")[0]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
