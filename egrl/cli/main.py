"""The command line. Each command is a file beside this one, imported only when it is used.

Exit codes: 0 done; 1 the board, the disk or the program failed, a memory cannot be packed; 2 the input
is wrong; 130 interrupted.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

import click

from egrl.cli.names import NamedGroup, message_of
from egrl.core import plugins
from egrl.core.version import VERSION

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMMANDS: dict[str, str] = {
    "run": "search for the best mapping of a workload",
    "watch": "the progress of running searches, from another terminal",
    "compare": "compare methods: a table and curves over seeds",
    "transfer": "place a trained policy on other workloads, with no training",
    "pretrain": "train one policy on many workloads",
    "bound": "prove how fast a mapping can be, and how far the best known is from that",
    "explore": "what more memory or bandwidth would buy, with a proof",
    "place": "a mapping at once, by rules learned on other networks",
    "evaluate": "score and explain one mapping",
    "simplify": "the fewest changes that keep most of the gain",
    "export": "the best mapping of a run as a table, or in a copy of the ONNX file",
    "allocate": "an address for each tensor of a mapping",
    "calibrate": "a chip file fitted to what runs measured on a board",
    "plot": "draw figures from run folders",
    "report": "one page of a run, to open, send and print",
    "trace": "a run's best mapping over time, for Perfetto",
    "reproduce": "a paper's experiments again, published numbers beside ours",
    "chip": "make a chip file of your own",
    "import": "make a workload file of a model: ONNX, an exported PyTorch program, HLO",
    "list": "list workloads, chips, methods or problems",
}

MODULES: dict[str, str] = {"import": "import_model"}
"""Commands whose file has another name, because theirs is a keyword of Python."""

KIND = plugins.Kind("command", "egrl", tuple(COMMANDS), "a command of click")
"""What plug-ins of the group `egrl.commands` are."""

TORCH = {"torch": "torch", "torch_geometric": "torch-geometric"}
"""Modules that only networks need, with the names to install."""


class _Lazy(NamedGroup):
    """A group whose commands are imported on use, so that `egrl --help` is quick; those of plug-ins come last."""

    def list_commands(self, context: click.Context) -> list[str]:
        return [*COMMANDS, *plugins.installed(KIND)]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """The command. InputError where it is of a plug-in that cannot be used, or that is not installed."""
        from egrl.cli.completion import with_names

        if name in COMMANDS:
            return with_names(importlib.import_module(f"egrl.cli.{MODULES.get(name, name)}").command)
        # A shell that asks what could follow must not run code that it names.
        known_only = context.resilient_parsing
        if name.startswith("-") or (known_only and name not in plugins.installed(KIND)):
            return None
        found = plugins.find(KIND, name)
        if not isinstance(found.thing, click.Command):
            raise found.refuse(plugins.described(found))
        return with_names(found.thing)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands that begin so, none of which is imported for it; options as click offers them."""
        from click.shell_completion import CompletionItem

        if incomplete and not incomplete[0].isalnum():
            return click.Command.shell_complete(self, ctx, incomplete)
        return [
            CompletionItem(name, help=says)
            for name, says in _summaries().items()
            if name.startswith(incomplete)
        ]

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_summaries().items()))


def _summaries() -> dict[str, str]:
    """A line about each command, none of which is imported for it."""
    return COMMANDS | plugins.origins(KIND)


def _verbose(context: click.Context, option: click.Parameter, value: bool) -> None:
    context.meta["verbose"] = value


def _version(context: click.Context, option: click.Parameter, value: bool) -> None:
    if not value:
        return
    click.echo(f"egrl, version {VERSION}")
    if context.meta.get("verbose"):
        from egrl.cli import about

        click.echo("\n".join(about.lines()))
    context.exit()


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option(
    "--verbose",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_verbose,
    help="with --version: also libraries, machine and caches, for reports of bugs",
)
@click.option(
    "--version", is_flag=True, expose_value=False, callback=_version, help="show the version and exit"
)
def cli() -> None:
    """Map neural networks onto accelerators by evolution, reinforcement learning, search and proof.

    egrl run --workload bert --gens 200 searches where each tensor of BERT should live on the NNP-I.
    """


def main(argv: Sequence[str]) -> int:
    """Run one command; returns the exit code and never shows a traceback for the user's mistakes."""
    from egrl.core import log
    from egrl.core.interrupts import watch_interrupts

    with log.files_closed(), watch_interrupts() as interrupted:
        try:
            return _main(argv)
        except Exception:
            if interrupted():
                return _fail("interrupted", 130)
            raise


def _main(argv: Sequence[str]) -> int:
    from egrl.core.failure import RunFailure
    from workloads.errors import InputError

    try:
        with _notices_as_lines():
            result = cli.main(list(argv), prog_name="egrl", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 2
    except click.ClickException as error:
        return _fail(message_of(error), 2)
    except InputError as error:
        return _fail(str(error), 2)
    except RunFailure as error:
        return _fail(str(error), 1)
    except (click.Abort, KeyboardInterrupt):
        return _fail("interrupted", 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except ModuleNotFoundError as error:
        package = TORCH.get((error.name or "").partition(".")[0])
        if package is None:
            raise
        return _fail(f"this needs {package}, which is not installed: pip install {package}", 2)
    except OSError as error:
        if error.filename is None and error.errno is None:
            return _fail(str(error), 1)  # of a library that lacks memory, or a part of itself
        return _fail(f"{error.filename or 'output'}: {error.strerror or error}", 1)
    except MemoryError:
        return _fail("out of memory", 1)
    return result if isinstance(result, int) else 0


@contextlib.contextmanager
def _notices_as_lines() -> Iterator[None]:
    """Print each `Notice` once, as one line on stderr, unless the command is quiet; other warnings are Python's."""
    from egrl.cli.output import readable
    from egrl.core.log import LOG
    from workloads.errors import Notice

    said: set[str] = set()
    with warnings.catch_warnings():
        others = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if not issubclass(category, Notice):
                others(message, category, filename, lineno, file, line)
                return
            context, text = click.get_current_context(silent=True), readable(str(message))
            if text not in said and not (context and context.params.get("quiet")):
                said.add(text)
                LOG.warning("%s", text)
                with contextlib.suppress(OSError):
                    click.echo(f"egrl: {text}", err=True)

        warnings.showwarning = show
        warnings.simplefilter("always", Notice)
        yield


def _fail(message: str, code: int) -> int:
    from egrl.cli.output import readable
    from egrl.core.log import LOG

    line = readable(message)
    LOG.error("%s", line)
    with contextlib.suppress(OSError):
        click.echo(f"egrl: error: {line}", err=True)
    return code
