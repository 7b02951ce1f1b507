"""egrl transfer: place the policies of trainings on other workloads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from workloads.errors import InputError


@click.command(name="transfer", short_help="place a trained policy on other workloads, with no training")
@click.argument("runs", nargs=-1, required=True, metavar="RUN…")
@click.option(
    "--workload",
    "workloads",
    required=True,
    multiple=True,
    metavar="W[,W2…]",
    help="workloads or workload files",
)
@click.option(
    "--finetune",
    type=click.IntRange(21),
    metavar="N",
    help="then search each workload with N evaluations, from the policy and from scratch",
)
@click.option("--seed", type=click.IntRange(0), default=0, help="of those searches [0]")
@click.option("--quiet", is_flag=True, help="no progress")
@click.option("--json", "as_json", is_flag=True, help="print one JSON document on stdout")
def command(
    runs: tuple[str, ...],
    workloads: tuple[str, ...],
    finetune: int | None,
    seed: int,
    quiet: bool,
    as_json: bool,
) -> int:
    """Place the policies that runs (or pre-trainings) saved on other workloads, with no training.

    Leaves transfer.json in each folder, from which `egrl plot transfer` draws.

    egrl transfer runs/bert-egrl-s0-1 --workload resnet50,resnet101
    """
    from egrl import atomic, saved_policies, transfer
    from egrl.names import several
    from egrl.stopping import Interrupted

    names = several(",".join(workloads), "--workload")
    documents = []
    try:
        for run in runs:
            source = saved_policies.read(Path(run))
            targets = transfer.build_targets(source, names)
            placed = transfer.zero_shot(source, targets)
            tuned = []
            if finetune is not None:
                tuned = _finetuned(source, names, [t.workload for t in targets], finetune, seed, quiet)
            new = transfer.document(source, placed, tuned)
            whole = transfer.merged(transfer.read(source.folder), new)
            atomic.write(
                source.folder / transfer.DOCUMENT, json.dumps(whole, indent=1, allow_nan=False) + "\n"
            )
            documents.append(new)
    except Interrupted as stop:
        click.echo(f"egrl: {stop}", err=True)
        return 130
    if as_json:
        click.echo(json.dumps({"kind": "transfers", "version": 1, "transfers": documents}))
    else:
        click.echo(table(documents), nl=False)
    return 0


def _finetuned(
    source: Any, workloads: Sequence[str], names: Sequence[str], evals: int, seed: int, quiet: bool
) -> list[dict[str, Any]]:
    from egrl import atomic, finetune

    if len(set(names)) < len(names):
        raise InputError(f"--workload: expected workloads of different names, found {', '.join(names)}")
    folder = source.folder / "finetune"
    atomic.make_folder(folder)
    return [
        finetune.compare(source, workload, name, evals, seed, folder, quiet)
        for workload, name in zip(workloads, names, strict=True)
    ]


def table(documents: Sequence[Mapping[str, Any]]) -> str:
    """Zero-shot speedups of each training's policies, a row a policy: the first, the best on average, the deployed."""
    from egrl.transfer import geometric_mean

    names = [target["workload"] for target in documents[0]["targets"]]
    lines = [
        "Speedup over the compiler with no training there; mean: geometric.",
        "",
        "| policy | at evaluation | " + " | ".join(names) + " | mean |",
        "|---|---:|" + "---:|" * (len(names) + 1),
    ]
    for document in documents:
        columns = [target["speedup"] for target in document["targets"]]
        means = [geometric_mean(row) for row in zip(*columns, strict=True)]
        best = max(range(len(means)), key=means.__getitem__)
        chosen = document["generations"].index(document["chosen"])
        for what, step in (("first", 0), ("best here", best), ("deployed", chosen)):
            cells = [f"{column[step]:.4f}" for column in columns]
            lines.append(
                f"| {document['policies']}, {what} | {document['evaluations'][step]} | "
                + " | ".join(cells)
                + f" | {means[step]:.4f} |"
            )
    tuned = [(document, row) for document in documents for row in document["finetuned"]]
    if tuned:
        lines += [
            "",
            f"Going on from the deployed policy, {tuned[0][1]['evaluations']} evaluations, cold start:",
            "",
            "| policy | workload | from scratch | at evaluation | from the policy | as good at | saved |",
            "|---|---|---:|---:|---:|---:|---:|",
        ]
        lines += [
            f"| {document['policies']} | {row['workload']} | {row['scratch']:.4f} | {row['scratch_evaluations']} |"
            f" {row['finetuned']:.4f} | {_or_never(row['finetuned_evaluations'])} | {_or_never(row['saved'])} |"
            for document, row in tuned
        ]
    return "\n".join(lines) + "\n"


def _or_never(number: int | None) -> str:
    return "never" if number is None else str(number)
