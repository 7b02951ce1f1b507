"""`egrl suite`: the command of this package, among egrl's."""

from __future__ import annotations

import click

from egrl_suite.__main__ import main


@click.command(
    name="suite",
    short_help="placements with proven optima: run methods, and compare them",
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def suite(words: tuple[str, ...]) -> int:
    """Run methods on placements whose optima are proved, and compare them.

    egrl suite run --track measurements --method egrl,annealing --split test -o results.json
    """
    return main(words, "egrl suite")
