"""The command line. Each command is a file beside this one, imported only when it is used.

Exit codes: 0 done; 1 the board, the disk or the program failed, a memory cannot be packed; 2 the input
is wrong; 130 interrupted.

Completion in shells of the names that flags take: workloads, methods, chips, problems and figures.

The shell asks click for it, which asks a parameter's type (`egrl` with `_EGRL_COMPLETE` set; see README.md).
"""

from __future__ import annotations

import contextlib
import importlib
import os
import platform
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, TextIO

import click
from click.shell_completion import CompletionItem

from egrl.cli.output import NamedGroup, message_of
from egrl.core import VERSION
from workloads import plugins
from workloads.errors import InputError

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
    "confirm": "measure mappings against each other on a board",
    "export": "the best mapping of a run as a table, or in a copy of the ONNX file",
    "allocate": "an address for each tensor of a mapping",
    "calibrate": "a chip file fitted to what runs measured on a board",
    "plot": "draw figures from run folders",
    "report": "one page of a run, to open, send and print",
    "trace": "a run's best mapping over time, for Perfetto",
    "reproduce": "a paper's experiments again, published numbers beside ours",
    "chip": "make a chip file of your own",
    "import": "make a workload file of a model: ONNX, an exported PyTorch program",
    "list": "list workloads, chips, methods or problems",
}

PLACES: dict[str, str] = {
    "import": "import_model:command",
    "plot": "pages:plot",
    "report": "pages:report",
    "trace": "pages:trace_command",
    "compare": "studies:compare",
    "explore": "studies:explore_command",
    "pretrain": "studies:pretrain_command",
    "export": "handover:export",
    "allocate": "handover:allocate_command",
    "reproduce": "studies:reproduce_command",
    "transfer": "placing:transfer_command",
    "place": "placing:place",
    "bound": "proving:bound",
    "simplify": "simplifying:simplify",
    "confirm": "simplifying:confirm",
    "list": "listing:list_command",
    "chip": "listing:chip",
}
"""File and function of the commands that have no file of their name with a `command`."""

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
        if name in COMMANDS:
            module, _, function = PLACES.get(name, f"{name}:command").partition(":")
            return with_names(getattr(importlib.import_module(f"egrl.cli.{module}"), function))
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
        click.echo("\n".join(about_lines()))
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
    from workloads.errors import InputError, RunFailure

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


def about_lines() -> Iterator[str]:
    """Versions, machine, GPU, plug-ins and caches, one line each: name, two spaces or more, value."""
    found = [
        ("egrl", f"{VERSION} ({Path(__file__).parents[2]})"),
        ("python", f"{platform.python_version()} ({sys.executable})"),
        ("system", platform.platform()),
        ("processor", f"{_processor()}, {_cores()}"),
        ("gpu", _gpu()),
        *_packages(),
        *_caches(),
    ]
    width = max(len(name) for name, _ in found)
    for name, value in found:
        yield f"{name:<{width}}  {value}"


def _processor() -> str:
    try:
        from hwsim.kernel_cache import machine_name

        return machine_name()
    except ImportError:
        return platform.processor() or platform.machine()


def _cores() -> str:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{usable} of {os.cpu_count()} cores"


def _gpu() -> str:
    try:
        import torch
    except ImportError:
        return "unknown without PyTorch"
    if not torch.cuda.is_available():
        return "none that PyTorch can use"
    return ", ".join(torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count()))


def _packages() -> Iterator[tuple[str, str]]:
    """The requirements of the package, its extras and its plug-ins that are installed."""
    try:
        required = metadata.requires("egrl") or []
    except metadata.PackageNotFoundError:  # run from a folder that was not installed
        required = []
    for line in sorted(set(required), key=str.lower):
        name = re.split(r"[\s;<>=\[]", line)[0]
        extra = "extra ==" in line
        if name == "egrl":  # an extra of extras
            continue
        try:
            yield name, metadata.version(name)
        except metadata.PackageNotFoundError:
            if not extra:
                yield name, "not installed"
    groups = [group for group in metadata.entry_points().groups if group.startswith("egrl.")]
    plugged = {entry.dist for group in groups for entry in metadata.entry_points(group=group)}
    yield from sorted({(dist.name, dist.version) for dist in plugged if dist is not None})


def _caches() -> Iterator[tuple[str, str]]:
    """Where kernels are kept."""
    from hwsim import kernel_cache

    try:
        yield "kernels", f"compiled ones in {kernel_cache.folder()}"
    except FileNotFoundError as error:
        yield "kernels", f"compiled in every process: {error}"


Names = Callable[[Mapping[str, Any]], Iterable[str]]
"""The names that there are, beside what else was typed: flag -> value."""


class NameType(click.types.StringParamType):
    """A text for which a shell offers names, and files where none begins so; of several with commas the last one."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The names that begin as what was typed; where there are none, the shell offers files."""
        before, comma, begun = incomplete.rpartition(",")
        try:
            found = [name for name in self._names(ctx.params) if name.startswith(begun)]
        except InputError:  # the problem that was typed is none
            found = []
        return [CompletionItem(f"{before}{comma}{name}") for name in found] or [
            CompletionItem(incomplete, type="file")
        ]


def with_names(command: click.Command) -> click.Command:
    """The command, with completion for parameters that take names."""
    for param in command.params:
        names = NAMES.get(param.opts[0])
        if names is not None and type(param.type) is click.types.StringParamType:
            param.type = NameType(names)
    return command


def _workloads(given: Mapping[str, Any]) -> Sequence[str]:
    from egrl.problems import KIND, find_problem
    from egrl.runs.config import RunOptions

    problem = given.get("problem") or RunOptions.problem

    if KIND.refers(problem):  # a key that is pressed runs no code
        return ()
    if problem not in KIND.own:
        return [str(entry["name"]) for entry in find_problem(problem).load().workloads()]
    if problem == "mmap":
        from workloads.programs import program_names

        return program_names()
    from workloads.load import all_names
    from workloads.zoo.mcm87 import MCM87_NAME, SIZES

    return [*all_names(), *(f"{MCM87_NAME}:{part}" for part in SIZES)]


def _of(module: str) -> Names:
    """The names of the registry in a module: the package's own, then those of plug-ins."""

    def names(given: Mapping[str, Any]) -> Sequence[str]:
        from workloads.plugins import installed

        kind = importlib.import_module(module).KIND
        return [*kind.own, *installed(kind)]

    return names


def _chips(given: Mapping[str, Any]) -> Sequence[str]:
    """Chips of the problem that was typed; none if it is a file's, since completion must not run code."""
    from egrl.problems import KIND, find_problem
    from egrl.runs.config import RunOptions

    problem = given.get("problem") or RunOptions.problem
    return () if KIND.refers(problem) else find_problem(problem).load().chips()


NAMES: dict[str, Names] = {
    "workload": _workloads,
    "--workload": _workloads,
    "--workloads": _workloads,
    "--validation": _workloads,
    "--method": lambda given: ["auto", *_of("egrl.methods")(given)],
    "--methods": _of("egrl.methods"),
    "--problem": _of("egrl.problems"),
    "--chip": _chips,
    "--like": _chips,
    "figure": _of("egrl.figures"),
    "--to": _of("egrl.runs.export"),
    "paper": _of("egrl.reproduction"),
}
"""Flag or argument -> the names that it takes."""
