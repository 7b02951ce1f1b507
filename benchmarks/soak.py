"""What a run withstands: kills, full disks, meddling, false checkpoints, bad boards, odd surroundings, a long time.

    python benchmarks/soak.py [--only PART,…] [--cases PART=N,…] [--small] [--seed 0] [--subjects TEXT]

Prints a table of what is promised, how it is tried, how many cases there were and how many went wrong, and then each
that did; 1 where one did. Runs are forked from this process, which has loaded what they need. --small has a few cases
of each part, for the tests; --subjects keeps the searches whose name has the text. docs/explanations/reliability.md
has the figures of the last long one.
"""

from __future__ import annotations

import argparse
import importlib
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from soaking import boards, contents, endurance, interruptions, protocol, surroundings
from soaking.trial import Outcome, Subject, subjects

Part = Callable[[random.Random, Sequence[Subject], int, Path], Iterator[Outcome]]
LOADED = ("egrl.methods.hybrid.egrl", "hwsim.nnpi.problem")
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
    """

    text: str
    how: str
    part: Part
    cases: int
    small: int


PROMISES = {
    "kills": Promise(
        "a killed run goes on as if nothing had happened",
        "SIGKILL at random instants, every method and executor",
        interruptions.kills, 200, 1,
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
    "meddling": Promise(
        "what somebody deletes meanwhile is written again",
        "metrics.csv, mappings/ or .lock deleted at random instants",
        interruptions.meddling, 60, 1,
    ),
    "checkpoints": Promise(
        "a false checkpoint is refused in one line, and changes nothing",
        "signed again with another value at a random place",
        contents.impossible, 600, 4,
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
        boards.misbehaving, len(boards.MODES), 1,
    ),
    "places": Promise(
        "results do not depend on home, terminal, locale, interpreter's options",
        "a run, a figure, a page and a list in each",
        surroundings.places, len(surroundings.PLACES), 0,
    ),
    "clocks": Promise(
        "results do not depend on the clock",
        "a clock that jumps by up to ten years at every look",
        surroundings.clocks, 40, 1,
    ),
    "names": Promise(
        "names of 10,000 characters work, or are refused in one line",
        "as names of ops, and in place of every name of a command",
        surroundings.names, 38, 2,
    ),
    "long": Promise(
        f"memory and disk grow by less than {endurance.MOST_MEMORY:.0f} and {endurance.MOST_DISK:.0f} MiB a million"
        " evaluations",
        "evaluations at random",
        endurance.long_run, 1_000_000, 0,
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
    args = parser.parse_args(argv)
    cases = {name: p.small if args.small else p.cases for name, p in PROMISES.items()}
    cases |= {name: int(count) for name, count in (word.split("=") for word in args.cases.split(",") if word)}
    for module in LOADED:
        importlib.import_module(module)
    wrong = []
    with tempfile.TemporaryDirectory() as scratch:
        found = [s for s in subjects(Path(scratch)) if args.subjects in s.name]
        if args.small:
            found = [subject for subject in found if subject.name in SMALL]
        print("| promised | how it is tried | cases | went wrong | s |\n|---|---|---:|---:|---:|")
        for name, promise in PROMISES.items():
            if not cases[name] or (args.only and name not in args.only.split(",")):
                continue
            begun, rng = time.monotonic(), random.Random(f"{args.seed} {name}")
            outcomes = list(promise.part(rng, found, cases[name], Path(scratch)))
            bad = [outcome for outcome in outcomes if outcome.fault]
            wrong += [f"{name}: {outcome.what}: {outcome.fault}" for outcome in bad]
            count = len(outcomes) if name != "long" else cases[name]
            said = outcomes[0].what if name == "long" else promise.how
            cells = (promise.text, said, f"{count:,}", str(len(bad)), f"{time.monotonic() - begun:.0f}")
            print("| " + " | ".join(cells) + " |", flush=True)
    print("\n".join(wrong) or "nothing went wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
