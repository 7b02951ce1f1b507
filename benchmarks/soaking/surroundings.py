"""Where and how a command runs: homes, terminals, interpreters, locales, clocks, names."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.soaking.trial import ROOT, Outcome, Subject, child, fresh, one_line, traces, wait

FOLDERS = ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "MPLCONFIGDIR", "NUMBA_CACHE_DIR", "EGRL_CACHE_DIR")
NOWHERE = dict.fromkeys(FOLDERS, "/proc/none")
PLACES: dict[str, tuple[list[str], dict[str, str], bool]] = {
    "python -O": (["-O"], {}, False),
    "python -OO": (["-OO"], {}, False),
    "python -W error": (["-W", "error"], {}, False),
    "a home that cannot be written": ([], NOWHERE, False),
    "no streams": ([], {}, True),
    "locale C, no UTF-8": ([], {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, False),
    "locale POSIX": ([], {"LC_ALL": "POSIX"}, False),
    "locale tr_TR": ([], {"LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8"}, False),
    "locale de_DE": ([], {"LC_ALL": "de_DE.ISO-8859-1"}, False),
    "output in ASCII": ([], {"PYTHONIOENCODING": "ascii"}, False),
    "a terminal of one column": ([], {"COLUMNS": "1", "LINES": "1", "TERM": "dumb"}, False),
    "the other side of the date line": ([], {"TZ": "Pacific/Kiritimati"}, False),
    "hashes of another seed": ([], {"PYTHONHASHSEED": "123"}, False),
}
"""Name -> options of Python, the environment, whether the standard streams are closed."""


def places(rng: random.Random, all_of: Sequence[Subject], cases: int, folder: Path) -> Iterator[Outcome]:
    """A run, a figure and a page; the run equals that of ordinary surroundings."""
    subject = next(s for s in all_of if s.name == "nnpi annealing")
    fault = subject.prepare(folder)
    for _, (name, (options, environment, closed)) in zip(range(cases), PLACES.items(), strict=False):
        out = fresh(subject, "placed")
        run = [*subject.argv, "--quiet", "--out", str(out)]
        for argv in (["run", *run], ["plot", "curves", str(out)], ["report", str(out)], ["list", "methods"]):
            fault = fault or _ended(name, argv, options, environment, closed)
        if not fault and traces(out) != traces(subject.whole):
            fault = "another result"
        yield Outcome(name, fault)
        fault = ""


def _ended(name: str, argv: list[str], options: list[str], environment: dict[str, str], closed: bool) -> str:
    """What is wrong with how a command ended."""
    command = [sys.executable, *options, "-m", "egrl", *argv]
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command] if closed else command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        start_new_session=True,
        check=False,
    )
    said = done.stderr.decode(errors="replace")
    return (
        f"{argv[0]}: exit code {done.returncode}: {said[-300:]}"
        if done.returncode or "Traceback" in said
        else ""
    )


def clocks(rng: random.Random, all_of: Sequence[Subject], cases: int, folder: Path) -> Iterator[Outcome]:
    """The clock on the wall jumps by up to ten years at every look; the run equals the undisturbed one."""
    real = time.time
    for _, subject in zip(range(cases), rng.sample(all_of, len(all_of)), strict=False):
        if fault := subject.prepare(folder):
            yield Outcome(subject.name, fault)
            continue
        out, seed = fresh(subject, "clocks"), rng.random()

        def jump(seed: float = seed) -> None:
            own = random.Random(seed)
            time.time = lambda: real() + own.uniform(-3e8, 3e8)

        log = out.with_suffix(".log")
        code, said = wait(child(subject.command(out), log, jump), log)
        yield Outcome(subject.name, one_line(code, said, (0,)) or subject.compare(out))


def names(rng: random.Random, all_of: Sequence[Subject], cases: int, folder: Path) -> Iterator[Outcome]:
    """Names of 10,000 characters, wherever one may stand: it works, or is refused in one line."""
    long = "".join(rng.choice("abcxyz") for _ in range(10_000))
    odd = "n" + "\u00e4\u4e2d\U0001f600\u202e\x07 \t" * 1_400
    log, tried = folder / "names.log", []
    for kind, name in (("letters", long), ("odd characters", odd)):
        file = folder / f"{kind.split()[0]}.json"
        file.write_text(json.dumps(_renamed(name)))
        out = str(folder / f"named-{kind.split()[0]}")
        tried += [
            (f"ops, {kind}: {command[0]}", command)
            for command in (
                [
                    "run",
                    "--workload",
                    str(file),
                    "--method",
                    "annealing",
                    "--gens",
                    "2",
                    "--quiet",
                    "--out",
                    out,
                ],
                ["evaluate", "--workload", str(file)],
                ["export", out, "-o", f"{out}.csv"],
                ["allocate", out],
                ["report", out],
                ["plot", "layout", out, "-o", f"{out}.png"],
                ["trace", out, "-o", f"{out}.trace.json"],
            )
        ]
        flags = (
            "--evaluator",
            "--workload",
            "--method",
            "--problem",
            "--chip",
            "--start",
            "--resume",
            "--out",
            "--set",
            "--evaluator",
        )
        tried += [
            (f"{flag}, {kind}", ["run", "--workload", "alexnet", "--gens", "1", flag, name]) for flag in flags
        ]
        tried += [
            (f"egrl {kind}", [name]),
            (f"plot {kind}", ["plot", name, out]),
            (f"export {kind}", ["export", name]),
        ]
    for what, argv in tried[:cases]:
        code, said = wait(child(argv, log, _away(folder)), log)
        yield Outcome(what, "" if code == 0 and "Traceback" not in said else one_line(code, said, (1, 2)))


def _away(folder: Path) -> Callable[[], None]:
    return lambda: os.chdir(folder)


def _renamed(name: str) -> dict[str, object]:
    """AlexNet, of which three ops have long names."""
    from workloads.load import load
    from workloads.serialize import to_json

    text = to_json(load("alexnet"))
    found = [op.name for op in load("alexnet").ops]
    for number, old in enumerate(found[1:4]):
        text = text.replace(json.dumps(old), json.dumps(f"{name}{number}"))
    return json.loads(text)
