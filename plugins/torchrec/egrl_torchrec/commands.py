"""The command: `egrl torchrec` shards embedding tables over GPUs as TorchRec's planner would, with a better plan."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import logging
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from egrl.cli.output import output_file, remark
from egrl.runs.text import counted, ratio_text
from workloads.errors import InputError
from workloads.text import read_quantity, size_text

INSTALL = (
    "TorchRec is not installed: pip install --no-deps torchrec==1.8.0 fbgemm-gpu-cpu==1.8.0, "
    "then pip install tensordict torchmetrics==1.0.3 tqdm pyre-extensions"
)
CAVEAT = "ratings are TorchRec's estimates of the dearest rank, not measurements"


@click.command(name="torchrec", short_help="embedding tables sharded over GPUs, with TorchRec's own costs")
@click.argument("tables")
@click.option("--world", type=click.IntRange(1, 4096), required=True, help="GPUs")
@click.option("--hbm", required=True, help="HBM of a GPU, such as 80GiB")
@click.option("--ddr", default="128GiB", help="memory of the host for a GPU [128GiB]")
@click.option(
    "--hosts", type=click.IntRange(1), default=None, help="hosts, of equal size [as few as hold 8 GPUs]"
)
@click.option(
    "--reserve", type=float, default=0.15, help="share of the memory for other than the tables [0.15]"
)
@click.option("--batch", type=click.IntRange(1), default=512, help="samples of a GPU in a step [512]")
@click.option("--seconds", type=float, default=30.0, help="time limit of the search [30]")
@click.option("--seed", type=click.IntRange(0), default=0, help="seed of the search [0]")
@click.option("--compare", is_flag=True, help="let TorchRec's own proposers plan, too, which may take long")
@click.option("-o", "--output", help="plan to write (.json) [none]")
@click.option("--quiet", is_flag=True, help="no progress on stderr")
@click.option("--json", "as_json", is_flag=True, help="print one JSON document on stdout")
def torchrec(
    tables: str,
    world: int,
    hbm: str,
    ddr: str,
    hosts: int | None,
    reserve: float,
    batch: int,
    seconds: float,
    seed: int,
    compare: bool,
    output: str | None,
    quiet: bool,
    as_json: bool,
) -> int:
    """Plan how TorchRec is to shard embedding tables (.json) over GPUs, by its own costs, with a proven bound.

    egrl torchrec tables.json --world 8 --hbm 80GiB -o plan.json
    """
    from egrl.core import atomic

    local = _local(world, hosts)
    memory = {"hbm_cap": _bytes(hbm, "--hbm"), "ddr_cap": _bytes(ddr, "--ddr")}
    if not (0 <= reserve < 1 and seconds > 0 and math.isfinite(seconds)):
        raise InputError(
            f"--reserve, --seconds: expected a share below 1 and a time, found {reserve:g}, {seconds:g}"
        )
    if output is not None:
        output_file(output, ".json")
    if importlib.util.find_spec("torchrec") is None:
        raise InputError(INSTALL)
    with _unheard():
        found = _found(tables, (world, local, memory), (batch, reserve, seconds, seed), compare, quiet)
    if output is not None:
        atomic.write_named(Path(output), json.dumps(found["plan"]))
    if as_json:
        click.echo(json.dumps({key: value for key, value in found.items() if key != "lines"}))
        return 0
    click.echo("\n".join([*found["lines"], *([f"written: {output}"] if output else [])]))
    return 0


def _found(
    path: str,
    where: tuple[int, int, dict[str, int]],
    how: tuple[int, float, float, int],
    compare: bool,
    quiet: bool,
) -> dict[str, Any]:
    """What the search and, if asked for, TorchRec's own proposers find."""
    from torchrec.distributed.planner.types import PlannerError, Topology

    from egrl_torchrec.planner import Partitioner, Proposer, summary
    from egrl_torchrec.tables import document, planned, planner_of, read

    (world, local, memory), (batch, reserve, seconds, seed) = where, how
    tables = read(Path(path))

    def planner(**parts: Any) -> Any:
        topology = Topology(world, "cuda", local_world_size=local, **memory)
        return planner_of(tables, topology, batch, reserve, **parts)

    if not quiet:
        remark("torchrec", f"TorchRec estimates the shards of {counted(len(tables), 'table')}")
    proposer = Proposer(seconds, seed)
    try:
        plan, rating = planned(planner(proposer=proposer, partitioner=Partitioner()), tables)
    except (PlannerError, RuntimeError) as error:
        why = summary(proposer.solution) if proposer.solution else " ".join(str(error).split())
        raise InputError(f"{path}: {why}") from None
    solution = proposer.solution
    assert solution is not None
    default = None
    if compare:
        with contextlib.suppress(PlannerError):
            default = planned(planner(), tables)[1]
    return {
        "kind": "torchrec-search",
        "version": 1,
        "tables": len(tables),
        "rating": rating,
        "bound": solution.bound,
        "seconds": solution.seconds,
        "default": default,
        "estimates": CAVEAT,
        "plan": (told := document(plan, world)),
        "lines": [summary(solution), *_compared(compare, default, rating), CAVEAT, *_described(told)],
    }


def _compared(compare: bool, default: float | None, rating: float) -> list[str]:
    if not compare:
        return []
    if default is None:
        return ["TorchRec's own proposers find no plan"]
    return [f"TorchRec's own proposers: {default:.5g}, so this is {ratio_text(default / rating)} as fast"]


def _described(plan: dict[str, Any]) -> list[str]:
    """How tables are sharded, and how full the ranks are."""
    kinds = Counter(
        f"{table['sharding_type']} {table['compute_kernel']}" for table in plan["tables"].values()
    )
    ranks = plan["ranks"]
    most, least = (end(rank["cost"] for rank in ranks) for end in (max, min))
    hbm, ddr = (max(rank[kind] for rank in ranks) for kind in ("hbm_bytes", "ddr_bytes"))
    return [
        "tables: " + ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()),
        f"ranks: {least:.5g} to {most:.5g}; at most {size_text(hbm)} of HBM, {size_text(ddr)} of DDR",
    ]


def _local(world: int, hosts: int | None) -> int:
    """GPUs of a host. InputError where hosts would not be equal."""
    number = max(1, math.ceil(world / 8)) if hosts is None else hosts
    if world % number:
        raise InputError(f"--hosts: expected a divisor of --world {world}, found {number}")
    return world // number


def _bytes(text: str, flag: str) -> int:
    found = read_quantity(text)
    if found is None or not 0 <= found < 2**60:
        raise InputError(f"{flag}: expected bytes such as 80GiB, found {text!r}")
    return int(found)


@contextlib.contextmanager
def _unheard() -> Iterator[None]:
    """TorchRec logs what the user did not ask for, as warnings, and sets up a log that repeats our own lines."""
    before, handlers = logging.root.manager.disable, list(logging.root.handlers)
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(before)
        logging.root.handlers[:] = handlers
