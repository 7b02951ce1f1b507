"""A board that runs a model in ONNX Runtime and says how long each op took: python board.py MODEL.onnx"""

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime

from egrl_edge import profiles
from workloads.load import load

RUNS = 5


def session(file, mapping, folder):
    """A session for one mapping. Here a CPU runs it, which has one memory: give `mapping` to your device's compiler."""
    options = onnxruntime.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, f"{folder}/profile"
    return onnxruntime.InferenceSession(file, options, ["CPUExecutionProvider"])


def measure(file, mapping, ops, names):
    """Seconds of an inference, the median of some, and of each op."""
    with tempfile.TemporaryDirectory() as folder:
        model, took = session(file, mapping, folder), []
        given = {i.name: np.zeros(i.shape, np.float32) for i in model.get_inputs()}
        for _ in range(RUNS + 1):
            begun = time.perf_counter()
            model.run(None, given)
            took.append(time.perf_counter() - begun)
        seconds = profiles.onnx_runtime(Path(model.end_profiling()))
    found = profiles.match(seconds, ops, names)
    return {"latency_s": statistics.median(took[1:]), "op_seconds": found.op_seconds}


def main(file):
    ops, names = [op.name for op in load(file)], profiles.names_in_model(file)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = measure(file, request["mapping"], ops, names)
        except Exception as error:
            answer = {"error": str(error)}
        print(json.dumps({"id": request["id"], **answer}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
