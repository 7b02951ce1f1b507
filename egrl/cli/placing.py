"""egrl transfer and place: saved policies, and what ships, on workloads without a search."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from egrl.cli import flags
from egrl.cli.output import interrupted, output_file, sayer
from hwsim.capabilities import HasBound
from hwsim.family import HasFamily
from hwsim.problem import Problem
from workloads.errors import InputError
from workloads.text import repeated

if TYPE_CHECKING:
    from egrl.transfer.zero_shot import SavedPolicies


@click.command(name="transfer", short_help="place a trained policy on other workloads, with no training")
@click.argument("runs", nargs=-1, required=True, metavar="RUN…")
@click.option(
    "--workload",
    "workloads",
    required=True,
    multiple=True,
    metavar="W[,W2…]",
    help="workloads, sets of them (mcm87:test) or workload files",
)
@click.option(
    "--finetune",
    type=click.IntRange(21, 10_000_000),
    metavar="N",
    help="then search each workload with N evaluations, from the policy and from scratch",
)
@click.option("--seed", type=click.IntRange(0), default=0, help="seed of those searches [0]")
@click.option("--problem", default="", help="problem of the policies, needed only if it is MODULE:NAME")
@click.option(
    "--method", default="", help="with --finetune: method of the policies, needed only if it is MODULE:NAME"
)
@flags.settings("code in files that their settings name, named again: method.network=MODULE:NAME")
@flags.use("workers")
@flags.output("one JSON document")
def transfer_command(
    runs: tuple[str, ...],
    workloads: tuple[str, ...],
    finetune: int | None,
    seed: int,
    problem: str,
    method: str,
    settings: tuple[str, ...],
    workers: int,
    quiet: bool,
    as_json: bool,
) -> int:
    """Place the policies that runs (or pre-trainings) saved on other workloads, with no training.

    Leaves transfer.json in each folder, from which `egrl plot transfer` draws.

    egrl transfer runs/bert-egrl-s0-1 --workload resnet50,resnet101
    """
    from egrl.cli.output import several_workloads
    from egrl.core import atomic
    from egrl.core.interrupts import Interrupted
    from egrl.core.typed_tables import parse_set
    from egrl.methods import KIND
    from egrl.transfer import zero_shot as transfer
    from workloads.plugins import check_given

    say = sayer("transfer", quiet)
    code = list(map(str, parse_set(settings, "method")["method"].values()))
    names = several_workloads(",".join(workloads), "--workload")
    folders = [Path(run) for run in runs]
    twice = next((f for f in folders if [g.resolve() for g in folders].count(f.resolve()) > 1), None)
    if twice is not None:
        raise InputError(f"RUN: expected different folders, found {twice} twice")
    documents, sources = [], [transfer.read_policies(folder, problem) for folder in folders]
    for source in sources if finetune is not None else ():
        check_given(str(source.folder), (KIND, source.method, method))
        source.check_code(settings)
    try:
        for source in sources:
            targets = transfer.build_targets(source, names)
            if (alike := repeated([target.about.workload for target in targets])) is not None:
                raise InputError(f"--workload: expected workloads of different names, found {alike} twice")
            placed = transfer.zero_shot(source, targets, code=code)
            tuned = []
            if finetune is not None:
                tuned = _finetune(source, names, targets, finetune, seed, workers, quiet, say)
            new = transfer.document(source, placed, tuned)
            whole = transfer.merge(transfer.read(source.folder), new)
            atomic.write(
                source.folder / transfer.DOCUMENT, json.dumps(whole, indent=1, allow_nan=False) + "\n"
            )
            documents.append({**new, "folder": str(source.folder)})
    except Interrupted:
        return interrupted(quiet)
    if as_json:
        click.echo(json.dumps({"kind": "transfers", "version": 1, "transfers": documents}))
    elif not quiet:
        click.echo(table(documents, targets[0]), nl=False)
    return 0


def _finetune(
    source: SavedPolicies,
    workloads: Sequence[str],
    targets: Sequence[Problem],
    evals: int,
    seed: int,
    workers: int,
    quiet: bool,
    say: Callable[[str], None],
) -> list[dict[str, Any]]:
    from egrl.core import atomic
    from egrl.runs.folder import check_links
    from egrl.transfer import zero_shot as transfer

    check_links(source.folder)
    folder = source.folder / "finetune"
    atomic.make_folder(folder)
    return [
        transfer.compare(source, workload, problem, evals, seed, workers, folder, quiet, say)
        for workload, problem in zip(workloads, targets, strict=True)
    ]


def table(documents: Sequence[Mapping[str, Any]], problem: Problem) -> str:
    """Zero-shot speedups of each training's policies, a row a policy: the first, the best on average, the deployed.

    `problem` is one of those on which they were placed.
    """
    from analysis.transfer import geometric_mean
    from egrl.runs.text import baseline_text
    from workloads.text import markdown_text, optional
    from workloads.text import table as markdown_table

    names = [markdown_text(target["workload"]) for target in documents[0]["targets"]]
    labels = [markdown_text(document["policies"]) for document in documents]
    called = {
        id(document): label if labels.count(label) == 1 else f"{label} ({markdown_text(document['folder'])})"
        for document, label in zip(documents, labels, strict=True)
    }
    rows = []
    for document in documents:
        columns = [target["speedup"] for target in document["targets"]]
        means = geometric_mean(columns).tolist()
        best = max(range(len(means)), key=means.__getitem__)
        chosen = document["generations"].index(document["chosen"])
        for what, step in (("first", 0), ("best here", best), ("deployed", chosen)):
            speedups = [f"{column[step]:.4f}" for column in (*columns, means)]
            rows.append([f"{called[id(document)]}, {what}", document["evaluations"][step], *speedups])
    lines = [
        f"Speedup over {baseline_text(problem.about, problem.baseline.name)}, with no training on that network; the"
        " mean is geometric.",
        "",
        *markdown_table(["policy", "at evaluation", *names, "mean"], rows),
    ]
    tuned = [(document, row) for document in documents for row in document["finetuned"]]
    if tuned:
        lines += [
            "",
            f"Two searches of {tuned[0][1]['evaluations']} evaluations each, both from a cold start: one from scratch,"
            " one from the deployed policy. At: the evaluation at which each reached the best from scratch; in brackets"
            " 99% of it.",
            "",
        ]
        rows = []
        for document, row in tuned:
            before, after, saved = (
                f"{optional(row[key])} ({optional(row['near'][key])})"
                for key in ("scratch_evaluations", "finetuned_evaluations", "saved")
            )
            scratch, finetuned = (f"{row[key]:.4f}" for key in ("scratch", "finetuned"))
            name = markdown_text(row["workload"])
            rows.append([called[id(document)], name, scratch, before, finetuned, after, saved])
        head = ["policy", "workload", "from scratch", "at", "from the policy", "at", "saved"]
        lines += markdown_table(head, rows, left=2)
    return "\n".join(lines) + "\n"


@click.command(name="place", short_help="a mapping at once, by what was learned on other networks")
@click.argument("workload")
@flags.use("problem", "chip")
@click.option("--policy", default="", help="a saved ranking policy, instead of what ships")
@click.option(
    "--no-model",
    is_flag=True,
    help="evaluate nothing: the network's own mapping, not the best of all by the model",
)
@click.option(
    "--steps",
    type=click.IntRange(0, 10_000_000),
    help="steps of local search on the model afterwards; 0: none [a fraction of a second's; after a policy none]",
)
@click.option(
    "--profile",
    default="",
    metavar="FILE",
    help="what each op took on your board (.json): placed by a network that reads this profile, without the model",
)
@flags.use("baseline")
@click.option("-o", "--output", help="write the mapping to this file")
@flags.use("settings", "json")
def place(
    workload: str,
    problem: str,
    chip: str,
    policy: str,
    no_model: bool,
    steps: int | None,
    profile: str,
    baseline: str,
    output: str | None,
    settings: tuple[str, ...],
    as_json: bool,
) -> int:
    """Place the tensors of a workload at once: a network and rules that learned on other networks and chips rank them.

    WORKLOAD is a name of `egrl list workloads`, or a file (.json, .onnx, .pt2). The chip's model chooses the best of
    their mappings and those of the built-in heuristics, from which a short local search on the model begins; where
    nothing is faster than the baseline, its mapping is kept. A search goes on from there: egrl run --start FILE.

    \b
    egrl place bert
    egrl place model.onnx --chip chip.toml -o mapping.json
    egrl place model.onnx --chip chip.toml --profile times.json
    """
    from egrl.core import atomic, mapping_file
    from egrl.methods.placed import network_for_profiles, place, place_after
    from egrl.problems import build_problem

    written = None if output is None else output_file(output, ".json")
    subject = build_problem(problem, workload, chip, settings, baseline)
    begun = time.perf_counter()
    without = "--no-model" if no_model else "--profile" if profile else ""
    if without and steps:
        raise InputError(f"--steps: a local search needs the model that {without} leaves out")
    if profile and policy:
        raise InputError(
            "--policy and --profile: expected one of them: the network that reads profiles ships"
        )
    if steps and not isinstance(subject, HasFamily):
        raise InputError(f"--steps: problem {subject.about.name} has no model that a local search could ask")
    if profile:
        from egrl.measure import profile_file

        shipped = network_for_profiles(subject)
        found = place_after(subject, shipped, *profile_file.read(profile, subject))
    else:
        found = place(subject, _policy(policy), judged=not no_model, steps=steps)
    seconds = time.perf_counter() - begun
    report: dict[str, Any] = {
        "kind": "place",
        "version": 1,
        **subject.about.names,
        "source": found.source,
        "candidates": found.candidates,
        "seconds": round(seconds, 4),
        "unit": subject.about.unit,
        "baseline": {"cost": subject.baseline.cost, "rule": subject.baseline.name},
    }
    if found.speedup is not None:
        cost = subject.baseline.cost / found.speedup
        report |= {"cost": cost, "speedup": found.speedup, "gap": _gap(subject, cost)}
        report |= {"ranked_speedup": found.ranked, "steps": found.steps}
    if written is not None:
        atomic.write_named(written, mapping_file.dumps(subject, found.mapping))
        report["written"] = output
    if as_json:
        click.echo(json.dumps(report, allow_nan=False))
        return 0
    click.echo(text_of(report, subject))
    if profile:
        click.echo("measure it on your board; its profile can be the next input")
    elif output is not None:
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
    from egrl.runs.text import baseline_text, compared, cost_text, doubt, percent_up

    took, count = f"{report['seconds'] * 1e3:.0f} ms", report["candidates"]
    head = f"{report['workload']} on {report['chip']}: "
    rule = baseline_text(problem.about, report["baseline"]["rule"])
    made = f"by {report['source']}" if count == 1 else f"the best of {count} mappings ({report['source']})"
    lines = []
    if "cost" not in report:
        lines.append(f"{head}placed {made} in {took}, not evaluated by a model")
    elif report["speedup"] <= 1:
        none = "the policy is no" if count == 1 else f"none of {count} mappings is"
        lines.append(f"{head}{none} faster than {rule} ({took}), whose mapping is kept")
        if report["steps"]:
            lines.append(f"{report['steps']:,} steps of local search on the model found none, either")
    else:
        cost = cost_text(report["cost"], report["unit"])
        lines.append(head + compared(report["speedup"], rule, report["unit"]))
        if report["steps"]:
            lines += [f"{cost}, in {took}", _searched(report, made)]
        else:
            lines.append(f"{cost}, {made}, in {took}")
    if said := doubt(problem.about.model_error, report.get("speedup", 1.0) - 1.0):
        lines.append(f"but {said}: measure the mapping before you ship it")
    if report.get("gap") is not None:
        lines.append(f"within {percent_up(report['gap'])} of the best possible (proven)")
    if "written" in report:
        lines.append(f"written: {report['written']}")
    return "\n".join(lines)


def _searched(report: dict[str, Any], made: str) -> str:
    """What rankings and the local search after them brought."""
    ranked, found = f"{report['ranked_speedup']:.4f}x", f"{report['speedup']:.4f}x"
    begun = f"{made}: {ranked}" if report["source"] != "baseline" else "no mapping by rank is faster"
    then = f"{report['steps']:,} steps of local search on the model"
    return f"{begun}; {then}: {found if found != ranked else 'no more'}"
