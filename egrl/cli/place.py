"""egrl place: a mapping at once, without a search."""

from __future__ import annotations

import json
import shlex
import time
from pathlib import Path
from typing import Any

import click

from egrl.cli import flags
from egrl.cli.output import output_file
from hwsim.capabilities import HasBound
from hwsim.problem import Problem
from workloads.errors import InputError


@click.command(name="place", short_help="a mapping at once, by what was learned on other networks")
@click.argument("workload")
@flags.use("problem", "chip")
@click.option("--policy", default="", help="a saved ranking policy, instead of what ships")
@click.option(
    "--no-model",
    is_flag=True,
    help="evaluate nothing: the network's own mapping, not the best of all by the model",
)
@flags.use("baseline")
@click.option("-o", "--output", help="write the mapping to this file")
@flags.use("settings", "json")
def command(
    workload: str,
    problem: str,
    chip: str,
    policy: str,
    no_model: bool,
    baseline: str,
    output: str | None,
    settings: tuple[str, ...],
    as_json: bool,
) -> int:
    """Place the tensors of a workload at once: a network and rules that learned on other networks and chips rank them.

    WORKLOAD is a name of `egrl list workloads`, or a file (.json, .onnx, .pt2). The chip's model chooses the best of
    their mappings; where none is faster than the baseline, its mapping is kept. A search goes on from there:
    egrl run --start FILE.

    \b
    egrl place bert
    egrl place model.onnx --chip chip.toml -o mapping.json
    """
    from egrl.core import atomic, mapping_file
    from egrl.methods.players import place
    from egrl.problems import build_problem

    written = None if output is None else output_file(output, ".json")
    subject = build_problem(problem, workload, chip, settings, baseline)
    begun = time.perf_counter()
    found = place(subject, _policy(policy), judged=not no_model)
    seconds = time.perf_counter() - begun
    report: dict[str, Any] = {
        "kind": "place",
        "version": 1,
        "problem": subject.about.name,
        "workload": subject.about.workload,
        "chip": subject.about.chip,
        "source": found.source,
        "candidates": found.candidates,
        "seconds": round(seconds, 4),
        "unit": subject.about.unit,
        "baseline": {"cost": subject.baseline.cost, "rule": subject.baseline.name},
    }
    if found.speedup is not None:
        cost = subject.baseline.cost / found.speedup
        report |= {"cost": cost, "speedup": found.speedup, "gap": _gap(subject, cost)}
    if written is not None:
        atomic.write_named(written, mapping_file.dumps(subject, found.mapping))
        report["written"] = output
    if as_json:
        click.echo(json.dumps(report, allow_nan=False))
        return 0
    click.echo(text_of(report, subject))
    if output is not None:
        click.echo(f"a search goes on from it: {_search_from(output, problem, workload, chip)}")
    return 0


def _policy(path: str) -> Path | None:
    if path and not Path(path).is_file():
        raise InputError(f"--policy: expected a policy file (.safetensors), found no such file as {path!r}")
    return Path(path) if path else None


def _search_from(file: str, problem: str, workload: str, chip: str) -> str:
    """The command that begins a search with a mapping file."""
    given = {"--problem": "" if problem == "nnpi" else problem, "--workload": workload, "--chip": chip}
    words = [word for flag, value in given.items() if value for word in (flag, value)]
    return shlex.join(["egrl", "run", *words, "--start", file])


def _gap(problem: Problem, cost: float) -> float | None:
    """The distance to the bound that ships with the package, if there is one."""
    bound = problem.bound(0).cost if isinstance(problem, HasBound) else 0.0
    return cost / bound - 1.0 if bound > 0 else None


def text_of(report: dict[str, Any], problem: Problem) -> str:
    """The answer for people."""
    from egrl.runs.text import baseline_text, compared, cost_text, percent_up

    took, count = f"{report['seconds'] * 1e3:.0f} ms", report["candidates"]
    head = f"{report['workload']} on {report['chip']}: "
    rule = baseline_text(problem.about, report["baseline"]["rule"])
    made = f"by {report['source']}" if count == 1 else f"the best of {count} mappings ({report['source']})"
    lines = []
    if "cost" not in report:
        lines.append(f"{head}placed {made} in {took}, not evaluated by a model")
    elif report["source"] == "baseline":
        none = "the policy is no" if count == 1 else f"none of {count} rankings is"
        lines.append(f"{head}{none} faster than {rule} ({took}), whose mapping is kept")
    else:
        cost = cost_text(report["cost"], report["unit"])
        lines.append(f"{head}{compared(report['speedup'], rule, report['unit'])}\n{cost}, {made}, in {took}")
    if report.get("gap") is not None:
        lines.append(f"within {percent_up(report['gap'])} of the best possible (proven)")
    if "written" in report:
        lines.append(f"written: {report['written']}")
    return "\n".join(lines)
