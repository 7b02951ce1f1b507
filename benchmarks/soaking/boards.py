"""Boards that answer nonsense, hang, lie, slow down and die."""

from __future__ import annotations

import json
import math
import random
import sys
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.soaking.trial import FAKE_BOARD, Outcome, Subject, child, one_line, wait
from egrl.measure.board import BoardFailure
from egrl.measure.board_process import BoardProcess
from hwsim.problem import Status
from workloads.errors import Notice

BOARDS = 8
LEAST_S = 1e-3
"""No mapping is faster on the fake board."""
MODES = (
    "well", "crash", "crash-once", "hang", "garbage", "half-line", "nan", "negative", "megabyte", "out-of-order",
    "duplicates", "error", "invalid", "samples", "talks-first", "slow-start 1", "sleep 0.2", "noise 0.3",
    "dies-after 30", "crash-always", "deaf", "exit-at-once",
)  # fmt: skip
FUZZING = """
import json, random, sys
rng = random.Random(int(sys.argv[1]))
ODD = ["null", "true", "[]", "{}", '""', "1e400", "-1", "NaN", "1" * 5000, "[" * 3000, '"\\\\ud800"', "{" * 50]
for line in sys.stdin:
    number = json.loads(line)["id"]
    text = bytearray(json.dumps({"id": number, "latency_s": rng.choice([0.5, [0.1, 0.2], 3])}).encode())
    for _ in range(rng.randint(0, 3)):
        kind, at = rng.randrange(5), rng.randrange(len(text) + 1)
        if kind == 0 and text:
            text[at % len(text)] = rng.randrange(256)
        elif kind == 1:
            del text[at:]
        elif kind == 2:
            text[at:at] = rng.choice(ODD).encode()
        elif kind == 3:
            text[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(40)))
        else:
            text += b"\\n" + bytes(text)
    sys.stdout.buffer.write(bytes(text) + rng.choice([b"\\n", b"\\r\\n", b"\\n", b"\\n\\n"]))
    sys.stdout.buffer.flush()
    if rng.random() < 0.02:
        sys.exit(rng.randrange(3))
"""
REQUEST = {"problem": "p", "workload": "w", "chip": "c", "mapping": [{"node": "n", "weight": "dram"}]}


def replies(rng: random.Random, all_of: Sequence[Subject], cases: int, folder: Path) -> Iterator[Outcome]:
    """Answers with changed bytes, eight boards at once: measured, or a failure of the board in one line."""
    script = folder / "fuzzing.py"
    script.write_text(FUZZING)

    def ask(seed: int) -> list[Outcome]:
        board = BoardProcess([sys.executable, str(script), str(seed)], start_timeout_s=1.0)
        try:
            return [Outcome(f"board {seed}", _fault(board)) for _ in range(-(-cases // BOARDS))]
        finally:
            board.close()

    with warnings.catch_warnings(), ThreadPoolExecutor(BOARDS) as pool:
        warnings.simplefilter("ignore", Notice)  # what a board says instead of an answer
        for part in pool.map(ask, [rng.randrange(2**31) for _ in range(BOARDS)]):
            yield from part


def _fault(board: BoardProcess) -> str:
    try:
        answer = board.measure(REQUEST, 0.3)
    except BoardFailure as error:
        return "" if "\n" not in str(error) else f"several lines: {str(error)[:200]!r}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    good = all(math.isfinite(sample) and sample > 0 for sample in answer.samples_s)
    return "" if good and (answer.status != Status.OK or answer.samples_s) else f"accepted {answer}"


def misbehaving(rng: random.Random, all_of: Sequence[Subject], cases: int, folder: Path) -> Iterator[Outcome]:
    """Eight boards of one kind; the run ends, in one line where it fails, and no lie is its best."""
    for case in range(cases):
        mode = MODES[case % len(MODES)]
        out, log = folder / f"board-{case}", folder / "board.log"
        argv = [
            "run",
            "--workload",
            "alexnet",
            "--method",
            rng.choice(["random", "ea", "annealing"]),
            "--gens",
            "2",
        ]
        patience = ["timeout_s=2", "timeout_floor_s=0.5", "start_timeout_s=20", "retries=1", "repeats=2"]
        settings = [word for value in patience for word in ("--set", f"evaluator.{value}")]
        seed = [
            "--seed",
            str(rng.randrange(10**6)),
            "--workers",
            str(BOARDS),
            "--evaluator",
            f"{FAKE_BOARD} {mode}",
        ]
        before = {"FAKE_BOARD_FOLDER": str(folder)}
        (folder / "answers").unlink(missing_ok=True)
        code, said = wait(
            child(
                [*argv, *seed, *settings, "--quiet", "--out", str(out)], log, lambda b=before: _environment(b)
            ),
            log,
        )
        fault = one_line(code, said, (0, 1))
        summary = out / "summary.json"
        best = json.loads(summary.read_text())["best"] if summary.exists() else None
        if best is not None and not mode.startswith("noise") and best["cost"] < 0.99 * LEAST_S:
            fault = fault or f"the best takes {best['cost']} s"
        yield Outcome(f"{BOARDS} boards: {mode}", fault)


def _environment(values: dict[str, str]) -> None:
    import os

    os.environ.update(values)
