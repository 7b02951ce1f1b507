"""Score a program that others wrote or evolved: a file with `place(network, chip)`, run in a process of its own.

`evaluate(path)` is what OpenEvolve and its like call: it returns `combined_score`, the mean share of the headroom over
families. Each placement has a process, which gets the source, one network and one chip through a pipe, and answers
with a placement through another; what it prints is dropped. In it a Python audit hook refuses to read anything but
Python's own files, to write files, to start processes, to open sockets and to load `ctypes`; limits on time, memory and
size of files hold. What comes back is judged here, where the program never was: patching the judge there changes
nothing. Whatever fails, by an exception, by time or by a placement that is none, has the default's cost, and is
counted. The test split cannot be asked for.

An audit hook stops programs that take short cuts. It is no wall against native code: run what you mistrust in a
machine of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from egrl_suite.judge import Wrong
from egrl_suite.library import Instance, SuiteError, instances, packed
from egrl_suite.scores import judged, score

LIMIT_S, MOST_BYTES = 20.0, 1 << 22
"""Seconds of a placement, and bytes of an answer."""
SPLITS = ("train", "validation")


def evaluate(program_path: str) -> dict[str, Any]:
    """The scores of a file on the train split."""
    return score_file(Path(program_path))


def score_file(
    path: Path, split: str = "train", seconds: float = LIMIT_S, quick: bool = False
) -> dict[str, Any]:
    """`combined_score`, the share with its interval, the worst speedup, and what failed and why.

    Raises SuiteError if there is no such file, or the split is the test's.
    """
    if split not in SPLITS:
        raise SuiteError(f"--split: expected train or validation for programs that evolve, found {split!r}")
    try:
        source = path.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise SuiteError(f"{path}: expected a Python file, found {error}") from None
    rows = [_row(source, one, seconds) for one in instances(split, ("nnpi",), quick)]
    return summary(rows)


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What `score_file` returns, of its rows."""
    found = score([{**row, "judged": {"1": judged(row, "1")}} for row in rows], "1")
    assert found is not None
    return {
        "combined_score": found.share,
        "low": found.low,
        "high": found.high,
        "worst_speedup": found.worst,
        "instances": found.instances,
        "failed": {row["instance"]: row["failed"] for row in rows if row["failed"]},
    }


def _row(source: str, one: Instance, seconds: float) -> dict[str, Any]:
    row = {"instance": one.name, "seed": 0, "answers": {}, "failed": ""}
    try:
        answer = placed(source, one, seconds)
        return {**row, "answers": {"1": packed(one.judge.fitted(answer))}}
    except (Wrong, ValueError, OverflowError) as error:
        return {**row, "failed": str(error)[:200] or type(error).__name__}


def placed(source: str, one: Instance, seconds: float) -> Any:
    """What the program answers, unchecked. Raises ValueError if that is nothing."""
    network, chip = one.seen
    request = json.dumps({"source": source, "network": network, "chip": chip, "seconds": seconds}).encode()
    get, put = os.pipe()
    command = [sys.executable, "-I", "-B", str(Path(__file__).with_name("child.py")), str(put)]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(put,),
        start_new_session=True,
        env={"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    ) as process:
        os.close(put)
        try:
            with contextlib.suppress(BrokenPipeError):
                assert process.stdin is not None
                process.stdin.write(request)
                process.stdin.close()
            text = _answer(get, time.monotonic() + seconds + 10.0)
        finally:
            os.close(get)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("no answer: it ended, or was ended, before") from None
    if not isinstance(answer, dict) or "mapping" not in answer:
        raise ValueError(
            f"it raised {answer.get('error', 'nothing') if isinstance(answer, dict) else 'nothing'}"
        )
    return np.asarray(answer["mapping"])


def _answer(pipe: int, until: float) -> bytes:
    """All that is written until the other end closes, time is over or too much came."""
    text = b""
    while len(text) <= MOST_BYTES and (left := until - time.monotonic()) > 0:
        if not select.select([pipe], [], [], left)[0]:
            break
        part = os.read(pipe, 1 << 16)
        if not part:
            return text
        text += part
    return b""
