"""egrl simplify and confirm: fewer changes that keep a gain, and mappings measured against each other."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from egrl.cli import flags
from egrl.cli.flags import mapping_of, run_or_flags
from egrl.cli.output import output_file
from workloads.errors import InputError
from workloads.text import aligned

if TYPE_CHECKING:
    from egrl.measure.board_executor import BoardExecutor
    from egrl.runs.contest import Contest
    from egrl.runs.past_run import PastRun
    from egrl.runs.simplified import Simplified
    from hwsim.problem import Mapping16, Problem

REQUESTS = 40
"""Requests to a board if nothing else is said."""


def share_of(text: str) -> float:
    """A share as 95% or 0.95. InputError if it is neither, or not above 0 and at most 1."""
    number = text.strip()
    try:
        share = float(number.removesuffix("%")) / (100.0 if number.endswith("%") else 1.0)
    except ValueError:
        share = math.nan
    if not 0 < share <= 1:
        raise InputError(f"--keep: expected a share of the gain such as 95%, found {text!r}")
    return share


@click.command(name="simplify", short_help="the fewest changes that keep most of the gain")
@click.argument("run", required=False)
@click.option(
    "--keep",
    help="the share of the gain that is kept [95%, or what a few changes keep, if that is most of it]",
)
@flags.use("own_workload")
@click.option("--mapping", help="another mapping file than RUN's best, or best-known")
@flags.use("own_problem", "own_chip", "own_settings", "baseline")
@click.option(
    "--evals",
    type=click.IntRange(1),
    help="evaluations of the model [a second or so: fewer for larger networks]",
)
@click.option("--evaluator", default="", help="measure by this command which changes matter; --keep is 95%")
@click.option("--requests", type=click.IntRange(1), help=f"budget in requests to --evaluator [{REQUESTS}]")
@click.option("-o", "--output", help="file to write the mapping to [RUN/simplified_mapping.json]")
@flags.use("json")
def simplify(
    run: str | None,
    keep: str | None,
    workload: str | None,
    mapping: str | None,
    problem: str | None,
    chip: str | None,
    settings: tuple[str, ...],
    baseline: str,
    evals: int | None,
    evaluator: str,
    requests: int | None,
    output: str | None,
    as_json: bool,
) -> int:
    """Find the fewest changes of the baseline's mapping that keep a share of what a run's best one gains, and write
    the mapping that has them.

    Of a run on a board a model that is fitted to its measurements says which changes matter, if that explains the
    measured gain. With --evaluator the board says it.

    \b
    egrl simplify runs/bert-egrl-s0-1
    egrl simplify runs/bert-egrl-s0-1 --keep 99% -o small.json
    egrl simplify --workload bert --mapping best-known --baseline mine.csv
    """
    from egrl.core import atomic, mapping_file
    from egrl.runs import progress, simplified
    from egrl.runs.folder import SIMPLIFIED

    share = None if keep is None else share_of(keep)
    if requests is not None and not evaluator:
        raise InputError(f"--requests {requests}: expected --evaluator, found none")
    if output is not None:
        output_file(output, ".json")
    named = {"--workload": workload, "--mapping": mapping, "--problem": problem, "--chip": chip}
    subject, best, _ = run_or_flags("simplify", run, named, settings, baseline)
    past = None if run is None else _past(run, problem)
    model, name, trusted = _model(past, subject, best, bool(evaluator))
    with progress.note_if_slow("searching for fewer changes", as_json):
        found = simplified.simplify(model, best, share, evals or simplified.quick(model))
    if evaluator:
        kept, budget = simplified.KEEP if share is None else share, requests or REQUESTS
        document, text, chosen = _measured(past, subject, found, best, evaluator, kept, budget, trusted)
    else:
        document = {**found.document(), **subject.about.names, **({"model": name} if name else {})}
        text, chosen = simplified.text_of(document), found.mapping
    if output is None and run is not None:
        output = str(Path(run) / SIMPLIFIED)
    if output is not None and chosen is not None:
        atomic.write_named(Path(output), mapping_file.dumps(subject, chosen))
        document, text = document | {"written": output}, f"{text}\nwritten: {output}"
    click.echo(json.dumps(document, allow_nan=False) if as_json else text)
    return 0


def _past(run: str, problem: str | None) -> PastRun:
    from egrl.runs.past_run import PastRun

    return PastRun.read(Path(run), problem or "")


def _model(
    past: PastRun | None, subject: Problem, best: Mapping16, measured: bool
) -> tuple[Problem, str, bool]:
    """The problem whose model says which changes matter; what that is called where a board measured the run; and
    whether it explains what was measured.

    InputError where it does not explain what the board measured, unless the changes are `measured`.
    """
    if past is None or not past.options.evaluator:
        return subject, "", False
    from egrl.report.explaining import explaining

    found = explaining(past, best)
    if found.why and not measured:
        raise InputError(
            f"simplify: expected a model that explains the gain that was measured, found {found.name}: {found.why};"
            f" measure instead: egrl simplify {past.path} --evaluator CMD --requests {REQUESTS}"
        )
    return found.problem, found.name, found.holds


def _measured(
    past: PastRun | None,
    subject: Problem,
    found: Simplified,
    best: Mapping16,
    evaluator: str,
    keep: float,
    requests: int,
    trusted: bool,
) -> tuple[dict[str, Any], str, Mapping16 | None]:
    """The document and the text of what a board says, and the mapping, if it gains."""
    from egrl.runs import measured_front

    with _boards(subject, evaluator) as boards:
        known = _known(past, boards)
        kept = measured_front.measure_few(boards, found, best, keep, requests, known, trusted)
    document, text = measured_front.document_of(kept, subject), measured_front.text_of(kept, subject)
    return document, text, kept.mapping if kept.gains else None


@contextlib.contextmanager
def _boards(problem: Problem, evaluator: str) -> Iterator[BoardExecutor]:
    from egrl.measure.config import EvaluatorConfig
    from egrl.measure.evaluator import board_executor

    with contextlib.closing(board_executor(problem, evaluator, 1, EvaluatorConfig(), None)) as boards:
        yield boards


def _known(past: PastRun | None, boards: BoardExecutor) -> list[Sequence[float]]:
    """Groups of samples of the baseline that a run keeps."""
    from egrl.measure.records import digest, kept_samples

    if past is None or not past.options.evaluator:
        return []
    return [kept_samples(past.path, digest(boards.baseline))]


@click.command(name="confirm", short_help="measure mappings against each other on a board")
@click.argument("mappings", nargs=-1, required=True, metavar="RUN|MAPPING...")
@click.option("--evaluator", required=True, help="the command that measures a mapping")
@click.option(
    "--requests", type=click.IntRange(1), default=REQUESTS, help=f"budget in requests to it [{REQUESTS}]"
)
@click.option("--workload", help="without a RUN: a workload of `egrl list workloads`, or a workload file")
@click.option("--problem", help="what a mapping costs; see `egrl list problems` [nnpi]")
@flags.use("own_chip", "own_settings", "baseline", "json")
def confirm(
    mappings: tuple[str, ...],
    evaluator: str,
    requests: int,
    workload: str | None,
    problem: str | None,
    chip: str | None,
    settings: tuple[str, ...],
    baseline: str,
    as_json: bool,
) -> int:
    """Measure mappings and the baseline's in turn on a board, and say which are surely faster.

    A RUN stands for its best mapping. With several winners that cannot be told apart, the one with the fewest changes
    is named.

    \b
    egrl confirm runs/board --evaluator "python board.py" --requests 60
    egrl confirm runs/board runs/board/simplified_mapping.json --evaluator "python board.py"
    """
    from egrl.runs import progress
    from egrl.runs.contest import contest, unlike
    from egrl.runs.text import short_baseline_text

    runs = [path for path in mappings if Path(path).is_dir()]
    named = {"--workload": workload, "--mapping": None, "--problem": problem, "--chip": chip}
    subject, _, _ = run_or_flags("confirm", runs[0] if runs else None, named, settings, baseline)
    found = [_best_of(path, subject, problem) for path in mappings]
    past = _past(runs[0], problem) if runs else None
    with _boards(subject, evaluator) as boards:
        every = [boards.baseline, *found]
        different = unlike(every)
        with progress.note_if_slow("measuring the mappings in turn", as_json):
            measured = contest(boards, [every[at] for at in different], requests, _known(past, boards))
    names = [short_baseline_text(subject.about), *mappings]
    document = _document(subject, [names[at] for at in different], [every[at] for at in different], measured)
    own = [names[at] for at in range(len(every)) if at not in different]
    document["equal"] = own
    click.echo(json.dumps(document, allow_nan=False) if as_json else _text(document))
    return 0


def _best_of(path: str, subject: Problem, problem: str | None) -> Mapping16:
    """The best mapping of a run, or that of a file. InputError where it is not of the problem."""
    if not Path(path).is_dir():
        return mapping_of(path, subject)
    past = _past(path, problem)
    if past.problem.fingerprint() != subject.fingerprint():
        raise InputError(f"{path}: expected a run of the same problem as the first, found another")
    return past.best_mapping()


def _document(
    problem: Problem, names: Sequence[str], mappings: Sequence[Mapping16], found: Contest
) -> dict[str, Any]:
    """For --json: the mappings, the fastest, and those that are not surely slower."""
    running = [at for at in range(len(names)) if found.runs(at)]
    fastest = max(running, key=found.speedup)
    level = [at for at in running if found.interval(fastest, at)[0] <= 1.0]
    changes = [int((mapping != problem.baseline.mapping).sum()) for mapping in mappings]
    rows = [
        {
            "name": names[at],
            "changes": changes[at],
            "measurements": len(found.measured[at].samples),
            "cost": found.measured[at].value if found.runs(at) else None,
            "speedup": found.speedup(at) if found.runs(at) else None,
            "speedup_interval": list(found.interval(at)) if found.runs(at) else None,
        }
        for at in range(len(names))
    ]
    return {
        "kind": "confirmation",
        "version": 1,
        **problem.about.names,
        "noise": found.noise.relative,
        "same_board": found.same,
        "mappings": rows,
        "fastest": names[fastest],
        "not_slower": [names[at] for at in level],
        "advised": names[min(level, key=lambda at: (changes[at], at))],
    }


def _text(document: Mapping[str, Any]) -> str:
    from egrl.runs.text import compared, cost_text

    rows, baseline = document["mappings"], document["mappings"][0]["name"]
    best = next(row for row in rows if row["name"] == document["fastest"])
    low, high = best["speedup_interval"]
    cells: list[Sequence[str]] = [("mapping", "changes", "time", "speedup", "95% interval")]
    for row in rows:
        said = ("-", "cannot be measured", "-")
        if row["cost"] is not None:
            between = "{:.4f}x to {:.4f}x".format(*row["speedup_interval"])
            said = (cost_text(row["cost"], "s"), f"{row['speedup']:.4f}x", between)
        cells.append((row["name"], str(row["changes"]), *said))
    lines = [*aligned(cells, (0, 4))]
    if best["name"] == baseline:
        lines.append(f"none is faster than {baseline}")
    else:
        what = compared(best["speedup"], baseline)
        lines.append(f"{best['name']}: {what}, 95% interval {low:.4f}x to {high:.4f}x")
    if len(document["not_slower"]) > 1:
        apart = ", ".join(document["not_slower"])
        lines.append(f"not told apart: {apart}; the fewest changes has {document['advised']}")
    if document["equal"]:
        lines.append(f"measured once, being equal to one above: {', '.join(document['equal'])}")
    if not document["same_board"]:
        lines.append(
            "the baseline takes another time than in the run: another board, or the same one changed"
        )
    each = rows[0]["measurements"]
    lines.append(f"noise {document['noise']:.2%}, {each} measurements of each")
    return "\n".join(lines)
