"""egrl bound and simplify: what a model proves of a mapping, and which of its changes matter."""

from __future__ import annotations

import json
import math
import shlex
from pathlib import Path
from typing import Any

import click

from egrl.cli import flags
from egrl.cli.flags import run_or_flags
from egrl.cli.output import output_file, remark
from egrl.runs.folder import CONFIG
from hwsim.baseline import noise_free_cost
from hwsim.capabilities import HasBestKnown, HasBound, HasModel
from hwsim.problem import About, Bound, Mapping16, Problem
from workloads.errors import InputError

DEFAULT_SECONDS = 60.0
LONGEST_LABEL = 11
"""Characters of a baseline's name that fit where a line has its label."""


@click.command(name="bound", short_help="prove a bound, and show the best mapping known and the gap")
@click.option(
    "--workload", required=True, help="a workload of `egrl list workloads`, or a file (.json, .onnx, .pt2)"
)
@flags.use("problem", "chip")
@click.option(
    "--seconds", type=float, help="prove anew within this time; the bound reached by then counts [60]"
)
@click.option("--seed", type=int, help="prove anew with this seed of the search for a good mapping [0]")
@click.option(
    "--prove", is_flag=True, help="prove anew, even if bound and best mapping ship with the package"
)
@click.option("--mapping", "mappings", multiple=True, help="also consider this mapping file")
@click.option("--run", "runs", multiple=True, help="also consider the best mapping of this run folder")
@flags.use("baseline")
@click.option("-o", "--output", help="write the best mapping known to this file")
@flags.use("settings", "json")
def bound(
    workload: str,
    problem: str,
    chip: str,
    seconds: float | None,
    seed: int | None,
    prove: bool,
    mappings: tuple[str, ...],
    runs: tuple[str, ...],
    baseline: str,
    output: str | None,
    settings: tuple[str, ...],
    as_json: bool,
) -> int:
    """Prove a lower bound on the cost of every mapping, and show the best mapping known and the gap between them.

    What ships with the package is shown at once; --seconds, --seed or --prove solve the problem's model anew. Of a
    problem whose rewards are bounded instead (mmap), the upper bound on the reward is shown, the best reward known and
    the gap; --seed is that of random mappings then.

    \b
    egrl bound --workload bert
    egrl bound --workload bert --seconds 60
    egrl bound --workload bert --run runs/bert-egrl-s0-1
    egrl bound --problem mmap --workload alexnet_train_batch_32
    """
    from egrl.core import atomic, mapping_file
    from egrl.problems import build_problem
    from egrl.runs.folder import BEST
    from egrl.runs.text import certificate, certificate_text

    written = None if output is None else output_file(output)
    limit_s = DEFAULT_SECONDS if seconds is None else seconds
    if not (limit_s > 0 and math.isfinite(limit_s)) or (seed or 0) < 0:
        raise InputError(
            f"--seconds, --seed: expected a positive number and a seed >= 0, found {limit_s}, {seed or 0}"
        )
    subject = build_problem(problem, workload, chip, settings, baseline)
    given = {name: mapping_file.read(name, subject) for name in mappings}
    given |= {name: mapping_file.read(str(Path(name) / BEST), subject) for name in runs}
    anew = prove or seconds is not None or seed is not None
    shipped = None if anew else shipped_bound(subject)
    proved = shipped or _proved(subject, limit_s)
    if proved is not None and math.isfinite(proved.reward):
        report, best = certificate(subject, proved, seed or 0, given)
        text = certificate_text
    else:
        report, best = bound_report(subject, limit_s, seed or 0, given, proved)
        text = text_of
    if shipped is not None:
        report["remarks"].insert(0, "bound and best mapping ship with egrl; --prove solves the model again")
    try:
        if written is not None:
            atomic.write_named(written, mapping_file.dumps(subject, best))
            report["written"] = output
    finally:  # a disk that refuses takes the file and not the bound
        click.echo(json.dumps(report, allow_nan=False) if as_json else text(report, subject.about))
    return 0


def shipped_bound(problem: Problem) -> Bound | None:
    """The bound that the package holds, where it holds a best mapping, too: then there is nothing to solve."""
    if not isinstance(problem, HasBound) or not isinstance(problem, HasBestKnown):
        return None
    bound = problem.bound(0)
    return bound if bound.cost > 0 and problem.best_known()[0] is not None else None


def _proved(problem: Problem, seconds: float) -> Bound | None:
    """The bound that a problem without a model proves within the limit; None if there is a model, to be solved later.

    A line on stderr says that a proof begins. InputError if there is neither model nor bound, or nothing is proved.
    """
    if isinstance(problem, HasModel | HasBound):
        remark(
            "bound",
            f"proving a bound for {problem.about.workload} on {problem.about.chip}, about {seconds:g} s at most",
        )
    if isinstance(problem, HasModel):
        return None
    if not isinstance(problem, HasBound):
        raise InputError(
            f"--problem {problem.about.name}: expected one with a model that can be solved or with a bound of its own"
        )
    found = problem.bound(seconds)
    if found.cost <= 0 and not math.isfinite(found.reward):
        raise InputError(f"--problem {problem.about.name}: expected more time, since nothing could be proved")
    return found


def bound_report(
    problem: Problem, seconds: float, seed: int, given: dict[str, Mapping16], proved: Bound | None = None
) -> tuple[dict[str, Any], Mapping16]:
    """The certificate of a problem, and the best mapping [N, H] known.

    It solves the problem's model within `seconds`, unless what is `proved` makes that needless.
    """
    known: dict[str, Mapping16] = {problem.about.baseline_name.removeprefix("the "): problem.baseline.mapping}
    remarks: list[str] = []
    if proved is None:
        assert isinstance(problem, HasModel)
        solution = problem.solve(seconds, seed)
        bound = solution.bound
        known["solver"] = solution.mapping
    else:
        bound = proved
    known |= given
    if isinstance(problem, HasBestKnown):
        best_known, remark = problem.best_known()
        remarks += [remark] if remark else []
        if best_known is not None:
            known["package"] = best_known
    from egrl.runs.text import baseline_table, shares_of

    costs = {name: noise_free_cost(problem, mapping) for name, mapping in known.items()}
    source = min(costs, key=lambda name: math.inf if math.isnan(costs[name]) else costs[name])
    if not math.isfinite(costs[source]) or bound.cost <= 0:
        what = "no valid mapping was found" if bound.cost > 0 else "nothing could be proved"
        raise InputError(f"--problem {problem.about.name}: expected more time, since {what}")
    report = {
        "kind": "bound",
        "version": 1,
        "problem": problem.about.name,
        "workload": problem.about.workload,
        "chip": problem.about.chip,
        "unit": problem.about.unit,
        "bound": bound.cost,
        "proof": bound.proof,
        "seconds": round(bound.seconds, 3),
        "best_known": {
            "cost": costs[source],
            "source": source,
            "speedup": problem.baseline.cost / costs[source],
            "bound_by": shares_of(problem, known[source]),
        },
        "gap": costs[source] / bound.cost - 1.0,
        "baseline": baseline_table(problem),
        "baseline_gap": problem.baseline.cost / bound.cost - 1.0,
        "remarks": remarks,
    }
    return report, known[source]


def text_of(report: dict[str, Any], about: About) -> str:
    """The certificate for people; `about` has the problem's words."""
    from egrl.runs.text import (
        OPTIMAL,
        better,
        compared,
        cost_text,
        percent_up,
        rule_text,
        short_baseline_text,
        table_of,
        verdict,
    )

    best, baseline, unit = report["best_known"], report["baseline"], report["unit"]
    baseline_name = short_baseline_text(about)
    label, detail = baseline_name.removeprefix("the "), baseline["rule"]
    if len(label) > LONGEST_LABEL:
        label, detail = "baseline", baseline_name
    named = "" if detail == label else f" ({detail})"
    above = f"{report['baseline_gap']:.2%} above the bound"
    took = f", {report['seconds']:.1f} s" if report["seconds"] > 0 else ""
    if abs(report["gap"]) <= OPTIMAL:
        gap = "none: the best known is proven to be the best possible"
    else:
        gap = f"{percent_up(report['gap'])}: the best known is within that of the best possible"
    said = verdict({**report, "best": best, "about": table_of(about)})
    rules = rule_text(baseline)
    lines = [
        f"{report['workload']} on {report['chip']}: no mapping is {better(unit)} than"
        f" {cost_text(report['bound'], unit)}",
        f"  proof       {report['proof']}{took}",
        f"  best known  {cost_text(best['cost'], unit)} ({best['source']}),"
        f" {compared(best['speedup'], baseline_name, unit)}",
        f"  {label:<12}{cost_text(baseline['cost'], unit)}, {above}{named}",
        *([f"  heuristics  {rules}"] if rules else []),
        f"  gap         {gap}",
        *([f"  limit       {said}"] if said else []),
    ]
    if "written" in report:
        lines.append(f"  written     {report['written']}: the best mapping known")
    return "\n".join([*lines, *(f"  note        {remark}" for remark in report["remarks"])])


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
@click.option("--keep", default="95%", help="the share of the gain that is kept [95%]")
@flags.use("own_workload")
@click.option("--mapping", help="another mapping file than RUN's best, or best-known")
@flags.use("own_problem", "own_chip", "own_settings", "baseline")
@click.option(
    "--evals",
    type=click.IntRange(1),
    help="evaluations of the model [some seconds: fewer for larger networks]",
)
@click.option("-o", "--output", help="file to write the mapping to [RUN/simplified_mapping.json]")
@flags.use("json")
def simplify(
    run: str | None,
    keep: str,
    workload: str | None,
    mapping: str | None,
    problem: str | None,
    chip: str | None,
    settings: tuple[str, ...],
    baseline: str,
    evals: int | None,
    output: str | None,
    as_json: bool,
) -> int:
    """Find the fewest changes of the baseline's mapping that keep a share of what a run's best one gains, and write
    the mapping that has them.

    Costs are those of the chip's model, also of a run on a board: measure the mapping there before you ship it.

    \b
    egrl simplify runs/bert-egrl-s0-1
    egrl simplify runs/bert-egrl-s0-1 --keep 99% -o small.json
    egrl simplify --workload bert --mapping best-known --baseline mine.csv
    """
    from egrl.core import atomic, mapping_file
    from egrl.runs import progress, simplified
    from egrl.runs.folder import SIMPLIFIED
    from hwsim.fewest import evaluations

    share = share_of(keep)
    if output is not None:
        output_file(output, ".json")
    named = {"--workload": workload, "--mapping": mapping, "--problem": problem, "--chip": chip}
    subject, best, _ = run_or_flags("simplify", run, named, settings, baseline)
    with progress.note_if_slow("searching for fewer changes", as_json):
        found = simplified.simplify(subject, best, share, evals or evaluations(subject))
        document = found.document()
    if output is None and run is not None:
        output = str(Path(run) / SIMPLIFIED)
    if output is not None:
        atomic.write_named(Path(output), mapping_file.dumps(subject, found.mapping))
        document["written"] = output
    click.echo(json.dumps(document, allow_nan=False) if as_json else _simplified_text(document))
    if run is not None and found.gains and (line := _measured(Path(run), problem or "", str(output))):
        remark("simplify", line)
    return 0


def _simplified_text(document: dict[str, Any]) -> str:
    from egrl.runs import simplified

    written = f"\nwritten: {document['written']}" if "written" in document else ""
    return simplified.text_of(document) + written


def _measured(run: Path, problem: str, written: str) -> str:
    """For a run that was measured: that the model chose, and the command that measures what it chose; else ""."""
    from egrl.measure.config import PYTHON, REPORTED
    from egrl.runs.past_run import PastRun

    evaluator = PastRun.read(run, problem).options.evaluator
    if not evaluator:
        return ""
    said = "by the chip's model, not measured; on the board"
    if evaluator == REPORTED or evaluator.startswith(PYTHON):
        return f"{said} measure it yourself"
    command = ["egrl", "run", "--config", str(run / CONFIG), "--start", written, "--evals", "1"]
    return f"{said}: {shlex.join([*command, '--method', 'random', '--evaluator', evaluator])}"
