"""egrl compare, explore, pretrain and reproduce: many searches or solves, and a folder of what they reached."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from egrl.cli import flags
from egrl.cli.output import interrupted, sayer
from egrl.core.contracts import Budget
from egrl.core.typed_tables import meanings
from egrl.exploration.grid import POINTS, SECONDS
from egrl.runs.config import RunOptions
from workloads.errors import InputError

EVALS = 4000
"""Evaluations of each run, where no budget is given."""


@click.command(name="compare", short_help="compare methods: a table and curves over seeds")
@flags.use("workloads")
@click.option("--methods", required=True, metavar="A,B,…", help="methods of `egrl list methods`")
@click.option("--seeds", type=click.IntRange(1), default=5, help="runs of each method: seeds 0, 1, … [5]")
@flags.budget(f"{EVALS} evaluations", "of each run")
@flags.use("problem")
@click.option(
    "--start",
    default=None,
    help="begin with: cold, compiler, rules, policy, exact, or a mapping FILE [compiler]",
)
@flags.use("baseline", "chip")
@flags.settings("problem.KEY=VALUE, or NAME.KEY=VALUE for the method called NAME")
@click.option("--preset", default="", metavar="paper", help="the paper's values")
@click.option("--threads", type=click.IntRange(1, 1024), default=1, help="threads of each run's learner [1]")
@click.option(
    "--out", required=True, help="folder of all runs and of the comparison; an existing one goes on"
)
@flags.use("jobs", "workers")
@flags.output("comparison.json")
def compare(
    workloads: str,
    methods: str,
    seeds: int,
    out: str,
    jobs: int,
    gens: int | None,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Run every method on every workload with the same seeds, start and budget, and compare what they reach.

    egrl compare --workload resnet50 --methods egrl,annealing,random --seeds 5 --evals 4000 --out comparison
    """
    from egrl.cli.output import several, several_workloads
    from egrl.compare import report as comparison_report
    from egrl.compare import statistics as comparison

    chosen = several(methods, "--methods")
    if "auto" in chosen:
        raise InputError(
            "--methods: expected names of `egrl list methods`, found 'auto', which is another for each problem"
        )
    folder = Path(out)
    limits = {"gens": gens, "evals": options["evals"], "seconds": options["seconds"]}
    given = {name: value for name, value in limits.items() if value is not None}
    options["evals"] = Budget.of(given or {"evals": EVALS}).evaluations

    document = comparison_report.compare(
        several_workloads(workloads, "--workload"),
        chosen,
        seeds,
        folder,
        options,
        jobs,
        sayer("compare", quiet),
    )
    if document is None:
        return interrupted(quiet)
    if as_json:
        click.echo(json.dumps(document))
    elif not quiet:
        click.echo(comparison.markdown(document), nl=False)
    comparison_report.check(document)
    return 0


MOST_ROWS = 30
"""Points that are printed; the file has all."""


@click.command(name="explore", short_help="what more memory or bandwidth would buy, with a proof")
@flags.use("workloads", "problem", "chip")
@click.option(
    "--vary",
    multiple=True,
    required=True,
    metavar="PATH=VALUES",
    help="a value of the chip file: PATH=LOW..HIGH, LOW..HIGH:POINTS, 'LOW..HIGH log' or A,B,C; once or twice",
)
@click.option(
    "--points", type=click.IntRange(2), default=POINTS, help=f"values of a range that does not say [{POINTS}]"
)
@click.option(
    "--seconds-per-point",
    type=float,
    default=SECONDS,
    help=f"time limit of a solve, in seconds [{SECONDS:g}]",
)
@click.option("--seed", type=click.IntRange(0), default=0, help="seed of the solves [0]")
@flags.use("settings")
@click.option("--executor", default="local", help=meanings(RunOptions)["executor"] + " [local]")
@click.option("--ray-address", default="", help=meanings(RunOptions)["ray_address"])
@click.option("-o", "--out", required=True, help="folder of all points and figures; an existing one goes on")
@flags.use("workers")
@flags.output("explore.json")
def explore_command(workloads: str, quiet: bool, as_json: bool, **options: Any) -> int:
    """Solve a workload on a grid of chip files: the best found, its proven bound, and what more is worth.

    \b
    egrl explore --workload bert --vary "memories.sram.capacity_bytes=1MiB..8MiB" -o explored
    egrl explore --workload bert --vary "memories.sram.capacity_bytes=1MiB..8MiB"
        --vary "memories.dram.bandwidth_Bps=50%..200%" --points 6 --workers 2 -o map
    """
    from egrl.cli.output import several_workloads
    from egrl.exploration import summary
    from egrl.exploration.explore import explore

    try:
        found = explore(several_workloads(workloads, "--workload"), say=sayer("explore", quiet), **options)
    except KeyboardInterrupt:
        return interrupted(quiet)
    if as_json:
        click.echo(json.dumps(found.document, allow_nan=False))
    elif not quiet:
        click.echo(summary.text_of(found.document, MOST_ROWS))
        click.echo(f"\nfigure, table and mappings: {options['out']}")
    return 0


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
@click.option("--init", default="", help="policy file to begin with; shipped: the one that ships")
@flags.use("workers")
@click.option("--threads", type=int, default=1, help="threads of the networks [1]")
@click.option("--device", default="cpu", help="torch device of the networks [cpu]")
@flags.settings("problem.KEY=VALUE or method.KEY=VALUE")
@click.option("--out", required=True, help="folder of the pre-training; an existing one goes on")
@flags.output("pretraining.json")
def pretrain_command(
    workloads: str,
    validation: str | None,
    device: str,
    settings: tuple[str, ...],
    out: str,
    quiet: bool,
    as_json: bool,
    **options: Any,
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
    chosen = PretrainOptions(
        tuple(several_workloads(workloads, "--workloads")),
        tuple(several_workloads(validation, "--validation")) if validation is not None else (),
        problem_settings=tables["problem"],
        method_settings=tables["method"],
        device=check_device(device),
        **options,
    )
    try:
        found = pretrain(chosen, Path(out), quiet)
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
    over = ""
    if chosen.get("interval"):
        low, high = chosen["interval"]
        over = f", 95 % interval {low:.4f} to {high:.4f} over {chosen['families']} families of networks"
    if chosen.get("share") is not None:
        over += f", {chosen['share']:.0%} of what the best known mappings gain"
    click.echo(
        f"{chosen['speedup']:.4f}x {found['rival']} on {', '.join(found['chosen_on'])} (geometric mean{over}), by the"
        f" policy of generation {chosen['generation']}; the first policy had {first['chosen_on']:.4f}x\n"
        f"{found['evaluations']} evaluations, {found['seconds']:.0f} s\npolicy: {out / 'policy.safetensors'}"
    )
    if tuned := found.get("chosen_finetuned"):
        click.echo(
            f"{tuned['speedup']:.4f}x after {tuned['evaluations']} evaluations there, from the policy of generation"
            f" {tuned['generation']}\nto start from: {out / 'policy-finetune.safetensors'}"
        )


class _Reproduce(click.Command):
    """A command that lists the papers when it is asked for help."""

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        from egrl.reproduction import list_papers

        with formatter.section("Papers"):
            formatter.write_dl(list(list_papers().items()))


@click.command(
    name="reproduce", cls=_Reproduce, short_help="a paper's experiments again, published numbers beside ours"
)
@click.argument("paper")
@click.option("--quick", is_flag=True, help="small networks and budgets: minutes instead of hours")
@click.option(
    "--out",
    help="folder of runs, figures and report; an existing one goes on [reproduce-PAPER[-quick]]",
)
@click.option(
    "--instances",
    metavar="FOLDER",
    help="where the instances are, of a paper that does not ship them (.json, .json.gz)",
)
@click.option(
    "--share",
    type=click.FloatRange(0.001, 1.0),
    help="of the seconds that the paper has, where --instances is needed [1]",
)
@flags.use("jobs", "workers")
@flags.output("the plan and its results as one JSON document")
def reproduce_command(
    paper: str,
    quick: bool,
    out: str | None,
    instances: str | None,
    share: float | None,
    jobs: int,
    workers: int,
    quiet: bool,
    as_json: bool,
) -> int:
    """Run a paper's experiments and write OUT/report.md with figures, published numbers beside ours.

    egrl reproduce egrl --quick
    """
    from egrl.core.interrupts import Interrupted
    from egrl.reproduction import find_paper

    experiments = find_paper(paper)
    plan = experiments.plan(quick)
    if hasattr(plan, "instances") != (instances is not None):
        wanted = "a folder of instances" if instances is None else f"none for {paper}"
        raise InputError(f"--instances: expected {wanted}, found {instances or 'none'}")
    if instances is not None:
        plan = replace(plan, instances=instances, share=plan.share if share is None else share)
    elif share is not None:
        raise InputError(f"--share: expected none for {paper}, found {share:g}")
    folder = Path(out or f"reproduce-{paper}{'-quick' if quick else ''}")

    say = sayer("reproduce", quiet)
    minutes = experiments.seconds(plan, jobs) / 60
    say(
        f"about {minutes:.0f} minutes with {jobs} job{'s' if jobs > 1 else ''} at once, less what is already in"
        f" {folder}; Ctrl-C stops, the same command goes on"
    )
    try:
        report = experiments.reproduce(plan, folder, jobs, say, workers)
    except Interrupted as stop:
        return interrupted(quiet, stop)
    if as_json:
        results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        document = {"kind": "reproduction", "version": 1, "paper": paper, "report": str(report), **results}
        click.echo(json.dumps(document))
        return 0
    if not quiet:
        click.echo(f"report: {report}")
    return 0
