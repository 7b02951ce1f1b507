"""What a run withstands: kills, full disks, bad boards, odd surroundings, a long time.

    python -m benchmarks.soak [--only PART,…] [--cases PART=N,…] [--small] [--seed 0] [--subjects TEXT] [--out FOLDER]

Prints a table of what is promised, how it is tried, how many cases there were and how many went wrong, and then each
that did; 1 where one did. Runs are forked from this process, which has loaded what they need. --small has a few cases
of each part, for the tests; --subjects keeps the searches whose name has the text. With --out all that was tried
stays in a folder: the same command goes on, with what is not done yet, and the table has what was done before.
benchmarks/log/reliability.md has the figures of the last long one.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from filelock import FileLock

from benchmarks.soaking import (
    boards,
    cluster,
    endurance,
    interruptions,
    kills,
    protocol,
    sizes,
    surroundings,
)
from benchmarks.soaking.record import Record
from benchmarks.soaking.trial import Outcome, Subject, commands, subjects

Part = Callable[[random.Random, Sequence[Subject], int, Path], Iterator[Outcome]]
LOADED = ("egrl.methods.named", "hwsim.nnpi.problem")
"""What takes long to load, and every child needs."""
SMALL = ("nnpi annealing", "mcm random", "shard annealing")
"""Searches that the small version is made of."""


@dataclass(frozen=True)
class Promise:
    """A line of the table.

    Attributes:
        text: what is promised.
        how: it is tried.
        part: which tries it.
        cases, small: how many, and in the small version.
        whole: its cases are a list, of which a part that was stopped begins anew.
    """

    text: str
    how: str
    part: Part
    cases: int
    small: int
    whole: bool = False


LONG = {"random": 1_000_000, "annealing": 1_000_000, "ea": 1_000_000, "egrl": 50_000, "twin": 5_000}
"""Method -> evaluations of its long run."""
PROMISES = {
    "kills": Promise(
        "a killed run goes on as if nothing had happened",
        "SIGKILL, -TERM, -INT, -STOP at random instants: all problems, methods, executors; compare, explore, pretrain",
        kills.kills, 1000, 1,
    ),
    "disk": Promise(
        "a full disk ends in one line, and loses nothing",
        "a limit on the size of files (RLIMIT_FSIZE)",
        interruptions.full_disk, 60, 1,
    ),
    "volume": Promise(
        "a full disk ends in one line, and loses nothing",
        "volumes of 16 KiB up to what the run needs (tmpfs)",
        interruptions.full_volume, 60, 0,
    ),
    "replies": Promise(
        "no answer of a board breaks a run, or is taken for another",
        "answers with bytes changed, cut, put in, said twice; 8 boards at once",
        boards.replies, 1000, 16,
    ),
    "lies": Promise(
        "whatever a board does to the protocol ends in time, and leaves no process",
        "27 ways to answer at random: floods, drips, ids, lies, depth, children; 8 boards at once",
        protocol.lies, 10_000, 32,
    ),
    "boards": Promise(
        "boards that hang, lie, slow down and die cost mappings, not the run",
        "each way to misbehave, 8 boards at once",
        boards.misbehaving, len(boards.MODES), 1, True,
    ),
    "places": Promise(
        "results do not depend on home, terminal, locale, interpreter's options",
        "a run, a figure, a page and a list in each",
        surroundings.places, len(surroundings.PLACES), 0, True,
    ),
    "clocks": Promise(
        "results do not depend on the clock",
        "a clock that jumps by up to ten years at every look",
        surroundings.clocks, 40, 1,
    ),
    "names": Promise(
        "names of 10,000 characters work, or are refused in one line",
        "as names of ops, and in place of every name of a command",
        surroundings.names, 38, 2, True,
    ),
    "sizes": Promise(
        "inputs at the edge of what there can be get an answer or one line",
        "10^6 ops, an op with 10^5 inputs, sizes up to 2^62, a memory of one byte, 2 GiB of addresses",
        sizes.sizes, 60, 8, True,
    ),
    **{
        f"long-{method}": Promise(
            f"memory and disk grow by less than {endurance.MOST_MEMORY:.0f} and {endurance.MOST_DISK:.0f} MiB a million"
            " evaluations, and an evaluation takes no longer",
            f"{count:,} evaluations of {method}",
            partial(endurance.long_run, method=method), count, 0,
        )
        for method, count in LONG.items()
    },
    # Last: it starts threads in this process, and processes that are forked after that may crash.
    "ray": Promise(
        "whatever dies of a Ray cluster, a run on it goes on to the same end",
        "a worker, a node and the driver killed in turn; three nodes on this machine",
        cluster.deaths, 30, 0,
    ),
}  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; 1 where a promise was not kept."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help=f"parts, separated by commas: {', '.join(PROMISES)}")
    parser.add_argument("--cases", default="", help="PART=N, separated by commas")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--subjects", default="", help="a part of the names of the searches to take")
    parser.add_argument("--out", type=Path, help="keep all that was tried here; the same command goes on")
    args = parser.parse_args(argv)
    for module in LOADED:
        importlib.import_module(module)
    with contextlib.ExitStack() as stack:
        kept = args.out
        folder = kept or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        stack.enter_context(FileLock(folder / ".lock", timeout=1))
        return soak(args, folder, Record.open(kept and kept / "outcomes.jsonl"))


def soak(args: argparse.Namespace, folder: Path, record: Record) -> int:
    """Try what is left to try, and print the table; 1 where a promise was not kept."""
    cases = {name: p.small if args.small else p.cases for name, p in PROMISES.items()}
    cases |= {name: int(count) for name, count in (word.split("=") for word in args.cases.split(",") if word)}
    found = [s for s in [*subjects(folder), *commands()] if args.subjects in s.name]
    if args.small:
        found = [subject for subject in found if subject.name in SMALL]
    print("| promised | how it is tried | cases | went wrong | s |\n|---|---|---:|---:|---:|")
    for name, promise in PROMISES.items():
        if cases[name] and (not args.only or name in args.only.split(",")):
            _try(name, promise, found, cases[name], folder, record, args.seed)
            print("| " + " | ".join(_row(name, promise, cases[name], record)) + " |", flush=True)
    wrong = [
        f"{name}: {o.what}: {o.fault}" for name, all_of in record.outcomes.items() for o in all_of if o.fault
    ]
    print("\n".join(wrong) or "nothing went wrong")
    return 1 if wrong else 0


def _try(
    name: str, promise: Promise, found: Sequence[Subject], cases: int, folder: Path, record: Record, seed: int
) -> None:
    """The cases of a part that the record does not have yet."""
    done = len(record.of(name))
    left = cases - done
    if promise.whole or name.startswith("long-"):
        left = 0 if done else cases
    if left <= 0:
        return
    rng, begun = random.Random(f"{seed} {name} {done}"), time.monotonic()
    runs = found if name == "kills" else [subject for subject in found if not subject.documents]
    outcomes = promise.part(rng, runs, left, folder)
    for outcome in list(outcomes) if promise.whole else outcomes:
        record.add(name, outcome, time.monotonic() - begun)
        begun = time.monotonic()


def _row(name: str, promise: Promise, cases: int, record: Record) -> tuple[str, ...]:
    """A line of the table; that of a long run says what it took."""
    outcomes, long = record.of(name), name.startswith("long-")
    bad = sum(bool(outcome.fault) for outcome in outcomes)
    said = outcomes[0].what if long and outcomes else promise.how
    count = cases if long else len(outcomes)
    return promise.text, said, f"{count:,}", str(bad), f"{record.seconds.get(name, 0.0):.0f}"


if __name__ == "__main__":
    sys.exit(main())
