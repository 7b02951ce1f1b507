"""Boards that keep to the protocol, nearly: each request is answered in one of 27 ways, most of them wrong."""

from __future__ import annotations

import contextlib
import os
import random
import re
import resource
import signal
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.soaking.boards import BOARDS, REQUEST
from benchmarks.soaking.trial import Outcome, Subject
from egrl.measure.board import BoardFailure
from egrl.measure.board_process import GRACE_S, PROC, BoardProcess
from hwsim.problem import Status
from workloads.errors import Notice

TIMEOUT_S, START_S, SLACK_S = 0.3, 0.7, 60.0
"""A request may take the first; the second more after a start; the third is for a busy machine."""
MOST_GROWTH = BOARDS * 32 * 2**20
"""Bytes by which memory may grow, measured after each request: twice the longest line that a board may say."""
WAYS = 27
HONEST = (0, 1)
"""The ways, of `WAYS`, that answer as the protocol says."""
SHOWN_ID = re.compile(r"(?<![\d.])[4-9]\d{15}(?!\d)")
HONEST_S = 0.5
"""What each mapping takes; a lie is that it takes another time."""
BOARD = r"""
import json, os, random, signal, subprocess, sys, time
rng, out = random.Random(), sys.stdout
LIE = 1e-3
WRONG = ["0", "-1", "5e-324", "1e308", "NaN", "-Infinity", '"0.001"', "true", "null", "[]", "{}", "[0.5, null]",
    "[0.5, -1]", "[[0.5]]", "1" * 400, "1" * 5000, "[" * 10000 + "]" * 10000, "[" * 900 + "]" * 900]
PROFILES = ["[]", "[-1]", "[1e300]", '"x"', "7", '{"n": "x"}', '{"\\ud800": 1}', "[" * 10000, '{"n": NaN}',
    "[" * 500 + "]" * 500]
TEXTS = ['"\\ud800"', '"\\u001b[2J\\u0000"', "null", "{}", '"' + "x" * 10**6 + '"', '[{"\\udfff": 1}]', "1" * 4000]


def say(text, end="\n"):
    out.write(text + end)
    out.flush()


def answer(number, latency="0.5", more=""):
    return '{"id": %s, "latency_s": %s%s}' % (number, latency, more)


def ids(n):
    return rng.choice([f'"{n}"', n + 1, n - 1, f"{n}.0", f"[{n}]", "null", "true", 0, 7, 2**60, f'{{"id": {n}}}'])


def flood(line, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        say(line * 1000, "")


def ways(n):
    honest = answer(n)
    return [
        lambda: say(honest),
        lambda: say(honest),
        lambda: say(honest, ""),
        lambda: say("board> " + honest),
        lambda: (say(answer(ids(n), LIE)), say(honest)),
        lambda: say(answer(ids(n), LIE)),
        lambda: ([say(answer(n + k, LIE)) for k in range(1, 300)], say(honest)),
        lambda: (say(honest), say(answer(n, LIE))),
        lambda: say(answer(n, rng.choice(WRONG))),
        lambda: say(answer(n, rng.choice(WRONG))),
        lambda: say(answer(n, more=', "op_seconds": ' + rng.choice(PROFILES))),
        lambda: say('{"id": %d, "error": %s}' % (n, rng.choice(TEXTS))),
        lambda: say('{"id": %d, "invalid": true, "epsilon": %s}' % (n, rng.choice(WRONG))),
        lambda: say("[" * 10000 + honest + "]" * 10000),
        lambda: (say("{" + "x" * rng.choice([10, 10**6, 20 * 2**20])), say(honest)),
        lambda: (sys.stderr.write("e" * rng.choice([10, 10**6, 64 * 2**20])), sys.stderr.flush(), say(honest)),
        lambda: [(say(c, ""), time.sleep(0.002)) for c in honest + "\n"],
        lambda: [(say(c, ""), time.sleep(0.05)) for c in honest + "\n"],
        lambda: (subprocess.Popen(["sleep", "600"], start_new_session=rng.random() < 0.5), say(honest)),
        lambda: (signal.signal(signal.SIGTERM, signal.SIG_IGN), say(honest)),
        lambda: (os.close(1), time.sleep(60)),
        lambda: (os.close(0), say(honest)),
        lambda: (out.buffer.write(bytes(rng.randrange(256) for _ in range(200)) + b"\n"), say(honest)),
        lambda: os._exit(rng.randrange(3)),
        lambda: os.kill(os.getpid(), signal.SIGKILL),
        lambda: flood(answer(rng.choice([0, n + 1]), LIE) + "\n", 60),
        lambda: flood("x", 60),
    ]


for line in sys.stdin:
    request = json.loads(line)
    rng.seed(request["seed"])
    ways(request["id"])[request["way"]]()
"""


def lies(rng: random.Random, all_of: Sequence[Subject], cases: int, folder: Path) -> Iterator[Outcome]:
    """Each request ends in time, as a measurement of `HONEST_S` or a failure in one printable line; nothing is left.

    Each way has its turn, in an order of its own per round and board, with a seed of its own: a board that was ended
    and started again goes on where it was. Most honest answers must be measured, or nothing would be tested.
    """
    script, each = folder / "protocol.py", -(-cases // BOARDS)
    script.write_text(BOARD)
    before, memory, honest = _memory(), [0], [False]

    def ask(seed: int) -> list[Outcome]:
        own = random.Random(seed)
        board = BoardProcess([sys.executable, str(script)], start_timeout_s=START_S)
        outcomes, order = [], list[int]()
        for _ in range(each):
            order = order or own.sample(range(WAYS), WAYS)
            way, number = order.pop(), own.randrange(2**31)
            fault, measured = _fault(board, {**REQUEST, "way": way, "seed": number})
            outcomes.append(Outcome(f"way {way}, seed {number}", fault))
            memory.append(_memory())
            if way in HONEST:
                honest.append(measured)
        mark = board._mark
        board.close()
        return [*outcomes, Outcome("the processes of a board", _left(mark))]

    with warnings.catch_warnings(), ThreadPoolExecutor(BOARDS) as pool:
        warnings.simplefilter("ignore", Notice)  # what a board says instead of an answer
        for part in pool.map(ask, [rng.randrange(2**31) for _ in range(BOARDS)]):
            yield from part
    grown = max(memory) - before
    yield Outcome("memory", f"grew by {grown >> 20} MiB" if grown > MOST_GROWTH else "")
    few = 2 * sum(honest) < len(honest) - 1
    yield Outcome("honest answers", f"{sum(honest)} of {len(honest) - 1} measured" if few else "")


def _fault(board: BoardProcess, request: dict[str, object]) -> tuple[str, bool]:
    """What is wrong with how a request ended ("": nothing), and whether it was measured."""
    begun, measured, said, fault = time.monotonic(), False, "", ""
    try:
        answer = board.measure(request, TIMEOUT_S)
    except BoardFailure as error:
        said = str(error)
    except BaseException as error:
        fault = f"{type(error).__name__}: {error}"
    else:
        said, measured = answer.reason, answer.status == Status.OK
        if measured and answer.samples_s != (HONEST_S,):
            fault = f"accepted {answer.samples_s}"
    took = time.monotonic() - begun
    if not said.isprintable() or SHOWN_ID.search(said):
        fault = f"not printable, or with an id: {said!r}"
    if took > TIMEOUT_S + START_S + GRACE_S + SLACK_S:
        fault = fault or f"took {took:.1f} s"
    return fault, measured


def _left(mark: str) -> str:
    """How many processes of a board are left a while after it was closed (a killed one takes a moment); they are
    ended.
    """
    deadline = time.monotonic() + SLACK_S
    while (found := [p for p in _processes() if _has(p, mark)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    for process in found:
        with contextlib.suppress(OSError):
            os.kill(process, signal.SIGKILL)
    return f"{len(found)} left" if found else ""


def _processes() -> list[int]:
    """Those of this machine, by /proc."""
    return [int(path.name) for path in PROC.glob("[0-9]*")]


def _has(process: int, mark: str) -> bool:
    try:
        return mark.encode() in (PROC / str(process) / "environ").read_bytes()
    except OSError:
        return False


def _memory() -> int:
    """Resident bytes of this process."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
