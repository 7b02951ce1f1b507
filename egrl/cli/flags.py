"""Flags that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from egrl.core.typed_tables import meanings
from egrl.runs.config import MOST_WORKERS, RunOptions

BUDGET = {
    "gens": "stop after this many generations",
    "evals": meanings(RunOptions)["evals"],
    "seconds": meanings(RunOptions)["seconds"],
}
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def budget(default: str, of: str = "") -> Decorator:
    """--gens, --evals and --seconds, of which one may be given. `default`: where none is; `of`: whose they are."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for name, kind in (("seconds", float), ("evals", int), ("gens", int)):
            text = " ".join([BUDGET[name], of]).strip() + (f" [{default}]" if name == "gens" else "")
            function = click.option(f"--{name}", type=kind, default=None, help=text)(function)
        return function

    return decorate


def baseline(without: str = "") -> Decorator:
    """--baseline, as `egrl run` has it; `without` says when it is ignored."""
    text = f"{without}{meanings(RunOptions)['baseline']}"
    return click.option("--baseline", default="", metavar="FILE", help=text)


def workers() -> Decorator:
    """--workers, as `egrl run` has it."""
    kind, text = click.IntRange(1, MOST_WORKERS), meanings(RunOptions)["workers"]
    return click.option("--workers", type=kind, default=1, help=f"{text} [1]")


def jobs() -> Decorator:
    """--jobs: runs at once."""
    return click.option(
        "--jobs", type=click.IntRange(1), default=1, help="runs at once, one process each [1]"
    )


def output(document: str) -> Decorator:
    """--quiet, --json (which prints the `document`) and --log."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for flag in (
            click.option(
                "--log",
                callback=_open_log,
                expose_value=False,
                metavar="FILE",
                multiple=True,
                help="append generations, notes and warnings to this file, with their times; or generations as"
                " metrics: json:FILE (JSON lines), mlflow, wandb",
            ),
            click.option("--json", "as_json", is_flag=True, help=f"print {document} on stdout"),
            click.option("--quiet", is_flag=True, help="print nothing but what --json asks for"),
        ):
            function = flag(function)
        return function

    return decorate


def _open_log(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> None:
    if value and not context.resilient_parsing:
        from egrl.core import log, trackers

        for name in value:
            if trackers.is_tracker(name):
                trackers.open_tracker(name)
            else:
                log.open_file(Path(name))
