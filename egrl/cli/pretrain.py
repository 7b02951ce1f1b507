"""egrl pretrain: one policy on many workloads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from egrl.cli import flags
from egrl.cli.output import interrupted


@click.command(name="pretrain", short_help="train one policy on many workloads")
@click.option(
    "--workloads",
    required=True,
    metavar="W,W2…",
    help="workloads, sets of them (mcm87:training) or workload files to train on",
)
@click.option(
    "--validation",
    metavar="W[,W2…]",
    help="validation workloads: the saved policy that is best on them is kept [those trained on]",
)
@click.option("--method", default="es", help="how to train: es, rank, ppo, or a plug-in's [es]")
@flags.budget("1000 generations", "over all workloads")
@click.option(
    "--save-every",
    type=int,
    default=10,
    help="generations between the policies that validation chooses among [10]",
)
@click.option(
    "--finetune",
    type=int,
    default=0,
    help="also fine-tune each saved policy on each validation workload, with so many evaluations [0: none]",
)
@click.option("--seed", type=int, default=0, help="seed of everything random [0]")
@flags.use("problem", "chip")
@click.option(
    "--chips-around",
    type=int,
    default=0,
    metavar="N",
    help="train each workload on N drawn chips around --chip, too [0]",
)
@click.option("--init", default="", help="policy file to begin with")
@flags.use("workers")
@click.option("--threads", type=int, default=1, help="threads of the networks [1]")
@click.option("--device", default="cpu", help="torch device of the networks [cpu]")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="problem.KEY=VALUE or method.KEY=VALUE",
)
@click.option("--out", required=True, help="folder of the pre-training; an existing one goes on")
@flags.output("pretraining.json")
def command(
    workloads: str,
    validation: str | None,
    method: str,
    gens: int | None,
    evals: int | None,
    seconds: float | None,
    save_every: int,
    finetune: int,
    seed: int,
    problem: str,
    chip: str,
    chips_around: int,
    init: str,
    workers: int,
    threads: int,
    device: str,
    settings: tuple[str, ...],
    out: str,
    quiet: bool,
    as_json: bool,
) -> int:
    """Train one policy on many workloads; the best on the validation workloads is kept as OUT/policy.safetensors.

    egrl pretrain --workloads resnet50,bert,unet --validation resnet18 --out pretrained

    egrl run --workload gpt2 --init pretrained/policy.safetensors goes on from it.
    """
    from egrl.cli.output import several_workloads
    from egrl.core import typed_tables
    from egrl.core.interrupts import Interrupted
    from egrl.runs.run import check_device
    from egrl.transfer.pretrain import pretrain
    from egrl.transfer.validation import PretrainOptions

    tables = typed_tables.parse_set(settings, "problem", "method")
    options = PretrainOptions(
        tuple(several_workloads(workloads, "--workloads")),
        tuple(several_workloads(validation, "--validation")) if validation is not None else (),
        gens,
        seed,
        problem,
        chip,
        tables["problem"],
        tables["method"],
        init,
        workers,
        threads,
        check_device(device),
        method,
        seconds,
        save_every,
        finetune,
        evals,
        chips_around,
    )
    try:
        found = pretrain(options, Path(out), quiet)
    except Interrupted as stop:
        return interrupted(quiet, stop)
    if as_json:
        click.echo(json.dumps(found, allow_nan=False))
    elif not quiet:
        _tell(found, Path(out))
    return 0


def _tell(found: Mapping[str, Any], out: Path) -> None:
    """Say which policies were kept, and what they reach."""
    chosen, first = found["chosen"], found["steps"][0]
    click.echo(
        f"{chosen['speedup']:.4f}x {found['rival']} on {', '.join(found['chosen_on'])} (geometric mean), by the"
        f" policy of generation {chosen['generation']}; the first policy had {first['chosen_on']:.4f}x\n"
        f"{found['evaluations']} evaluations, {found['seconds']:.0f} s\npolicy: {out / 'policy.safetensors'}"
    )
    if tuned := found.get("chosen_finetuned"):
        click.echo(
            f"{tuned['speedup']:.4f}x after {tuned['evaluations']} evaluations there, from the policy of generation"
            f" {tuned['generation']}\nto start from: {out / 'policy-finetune.safetensors'}"
        )
