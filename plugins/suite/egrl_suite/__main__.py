"""The command: `python -m egrl_suite`, or `egrl suite` where egrl is installed."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from egrl_suite.files import read, unfinished
from egrl_suite.library import SPLITS, SuiteError, find, instances, version
from egrl_suite.tasks import TRACKS


def main(argv: Sequence[str] | None = None, name: str = "python -m egrl_suite") -> int:
    """Run a command; exit 2 with one line for what a user can cause."""
    given = _parser(name).parse_args(argv)
    try:
        given.run(given)
    except (SuiteError, OSError) as error:  # a disk or a folder that refuses says so in one line
        print(f"egrl suite: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("egrl suite: interrupted; the same command goes on", file=sys.stderr)
        return 130
    return 0


def _parser(name: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=name, description="Placements with proven optima: run and compare methods."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="run methods on a track; an existing file goes on")
    run.add_argument("--track", choices=TRACKS, default="measurements")
    run.add_argument(
        "--method", required=True, metavar="A,B,…", help="default, random, egrl's, or MODULE:NAME"
    )
    run.add_argument("--split", choices=SPLITS, default="train")
    run.add_argument("--quick", action="store_true", help="the instances of the quick slice alone")
    run.add_argument("--seeds", type=int, default=1, help="searches of each instance: seeds 0, 1, … [1]")
    run.add_argument("--most", type=int, help="leave out marks above so many measurements")
    run.add_argument("--workers", type=int, default=1, help="searches at the same time [1]")
    run.add_argument("-o", "--output", type=Path, required=True, help="file of results (.json, .json.gz)")
    run.set_defaults(run=_run)

    table = commands.add_parser("table", help="the leaderboard of files of results, costs judged anew")
    table.add_argument("results", nargs="+", type=Path)
    table.add_argument("--against", default="", metavar="METHOD", help="also differences to a method, paired")
    table.add_argument("--figure", type=Path, help="also draw shares against measurements (.png, .svg)")
    table.set_defaults(run=_table)

    listed = commands.add_parser("list", help="the instances: family, split, gain, gap to the bound")
    listed.add_argument("--split", choices=SPLITS, default="")
    listed.set_defaults(run=_list)

    program = commands.add_parser(
        "program", help="score a file with place(network, chip), in a process of its own"
    )
    program.add_argument("file", type=Path)
    program.add_argument("--split", choices=("train", "validation"), default="train")
    program.add_argument("--seconds", type=float, default=20.0, help="limit of each placement [20]")
    program.set_defaults(run=_program)

    export = commands.add_parser(
        "export", help="write an instance as files for `egrl run --workload … --chip …`"
    )
    export.add_argument("instance")
    export.add_argument("folder", type=Path)
    export.set_defaults(run=_export)

    prove = commands.add_parser("prove", help="prove the bound of an instance anew (needs egrl)")
    prove.add_argument("instance")
    prove.add_argument("--seconds", type=float, default=60.0)
    prove.set_defaults(run=_prove)
    return parser


def _run(given: argparse.Namespace) -> None:
    from egrl_suite.files import run_all

    if given.seeds < 1 or given.workers < 1:
        raise SuiteError(f"--seeds, --workers: expected at least 1, found {given.seeds} and {given.workers}")
    names = list(dict.fromkeys(given.method.split(",")))

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    run_all(
        given.output,
        given.track,
        given.split,
        names,
        given.seeds,
        given.quick,
        given.most,
        given.workers,
        say,
    )


def _table(given: argparse.Namespace) -> None:
    from egrl_suite import table

    found = table.boards(given.results, given.against)
    for path in given.results:
        for method, lacking, of in unfinished(read(path)):
            said = f"{lacking} of {of} searches of {method} were not run, and count as failed"
            print(f"egrl suite: {path}: {said}: the command that began them goes on", file=sys.stderr)
    print(table.markdown(found, given.against), end="")
    if given.figure:
        table.figure(found, given.figure)


def _list(given: argparse.Namespace) -> None:
    print(f"suite {version()['version']}, {version()['digest']}")
    for one in instances(given.split):
        gain, gap = one.default_cost / one.best_cost - 1.0, one.best_cost / one.bound - 1.0
        print(
            f"{one.name:34} {one.split:10} {one.family:14} gain {gain:7.2%}  above the optimum {gap:6.2%} at most"
        )


def _program(given: argparse.Namespace) -> None:
    from egrl_suite.program import score_file

    print(json.dumps(score_file(given.file, given.split, given.seconds), indent=1))


def _export(given: argparse.Namespace) -> None:
    from egrl_suite.library import DATA, read_network

    one = find(given.instance)
    if one.kind in ("mcm", "program"):
        raise SuiteError(f"{one.name}: expected an instance with a chip file, found a module or a program")
    given.folder.mkdir(parents=True, exist_ok=True)
    (given.folder / "network.json").write_text(json.dumps(read_network(one.network)) + "\n", "utf-8")
    (given.folder / "chip.toml").write_text((DATA / f"chips/{one.chip}.toml").read_text("utf-8"), "utf-8")


def _prove(given: argparse.Namespace) -> None:
    try:
        from egrl_suite.through_egrl import prove
    except ModuleNotFoundError as error:
        raise SuiteError(f"prove: expected egrl, found none ({error})") from None
    one = find(given.instance)
    bound, proof = prove(one.name, given.seconds)
    print(f"{one.name}: no placement takes less than {bound:.9g} s ({proof})")
    print(f"shipped: {one.bound:.9g} s; best known {one.best_cost:.9g} s")


if __name__ == "__main__":
    sys.exit(main())
