"""egrl transfer: place the policies of trainings on other workloads."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from egrl.cli import flags
from egrl.cli.output import interrupted, sayer
from hwsim.problem import Problem
from workloads.errors import InputError

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
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="code in files that their settings name, named again: method.network=MODULE:NAME",
)
@flags.use("workers")
@flags.output("one JSON document")
def command(
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
    from egrl.core.plugins import check_given
    from egrl.core.typed_tables import parse_set
    from egrl.methods import KIND
    from egrl.transfer import zero_shot as transfer

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
            _check_names([target.about.workload for target in targets])
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


def _check_names(names: Sequence[str]) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"--workload: expected workloads of different names, found {twice} twice")


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
    from workloads.text import optional
    from workloads.text import table as markdown_table

    names = [target["workload"] for target in documents[0]["targets"]]
    labels = [document["policies"] for document in documents]
    called = {
        id(document): label if labels.count(label) == 1 else f"{label} ({document['folder']})"
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
            rows.append([called[id(document)], row["workload"], scratch, before, finetuned, after, saved])
        head = ["policy", "workload", "from scratch", "at", "from the policy", "at", "saved"]
        lines += markdown_table(head, rows, left=2)
    return "\n".join(lines) + "\n"
