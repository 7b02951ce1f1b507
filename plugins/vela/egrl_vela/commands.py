"""The command: `egrl vela` compiles a model for an Ethos-U with the best options of Vela that it finds."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from egrl.cli.output import interrupted, output_file, remark
from workloads.errors import InputError, RunFailure

if TYPE_CHECKING:
    from egrl_vela.compiler import Setting
    from egrl_vela.runner import Runner
    from egrl_vela.search import Found


@click.command(
    name="vela", short_help="a faster program for an Arm Ethos-U, by options of its compiler, Vela"
)
@click.argument("model")
@click.option("--accelerator", required=True, help="as Vela's --accelerator-config, such as ethos-u65-256")
@click.option(
    "--system-config", required=True, help="of Vela's configuration file, such as Ethos_U65_High_End"
)
@click.option("--memory-mode", required=True, help="of that file, such as Dedicated_Sram_384KB")
@click.option(
    "--config", default="Arm/vela.ini", help="Vela's configuration file [the one that comes with Vela]"
)
@click.option("--sram", default=0, metavar="BYTES", help="SRAM of the device [that of the memory mode]")
@click.option("-o", "--output", required=True, help="program to write (.tflite)")
@click.option(
    "--compiles", type=click.IntRange(1), default=40, help="compiles at most, Vela's default among them [40]"
)
@click.option("--jobs", type=click.IntRange(1), default=1, help="compiles at once, at most 4 of use [1]")
@click.option("--timeout", type=float, default=600.0, help="seconds that a compile may take [600]")
@click.option(
    "--layers", type=click.IntRange(0), default=10, help="layers in the table, those that change most [10]"
)
@click.option(
    "--out", default="runs/vela", help="folder of results; the same command goes on there [runs/vela]"
)
@click.option(
    "--decisions", help="write the program of these decisions, those of a run of --problem vela (.json)"
)
@click.option("--vela", "command", default="", help="Vela's command [beside Python, or on the path]")
@click.option("--quiet", is_flag=True, help="no progress on stderr")
@click.option("--json", "as_json", is_flag=True, help="print one JSON document on stdout, with all layers")
def vela(
    model: str,
    accelerator: str,
    system_config: str,
    memory_mode: str,
    config: str,
    sram: int,
    output: str,
    compiles: int,
    jobs: int,
    timeout: float,
    layers: int,
    out: str,
    decisions: str | None,
    command: str,
    quiet: bool,
    as_json: bool,
) -> int:
    """Compile a quantised model (.tflite) for an Arm Ethos-U with Vela, by the best of its options that are found.

    egrl vela model.tflite --accelerator ethos-u65-256 --system-config Ethos_U65_High_End --memory-mode
    Dedicated_Sram_384KB -o fast.tflite
    """
    from egrl.core import atomic
    from egrl_vela import compiler, report
    from egrl_vela.runner import Runner

    _check(model, output, sram, timeout)
    tool = compiler.find(command)
    target = compiler.Target(model, accelerator, system_config, memory_mode, config, sram)
    if decisions is not None:
        from egrl_vela.decided import decided

        program, lines, document = decided(tool, target, Path(decisions), layers, timeout)
        atomic.write_named(Path(output), program)
        click.echo(json.dumps(document) if as_json else "\n".join([*lines, f"written: {output}"]))
        return 0
    runner = Runner(tool, target, Path(out), jobs, timeout)
    try:
        found, best, program = _searched(runner, compiles, quiet)
    except KeyboardInterrupt:
        tool.end()
        return interrupted(quiet)
    atomic.write_named(Path(output), program)
    if as_json:
        click.echo(json.dumps(report.document(tool, target, found, best, output, runner.folder)))
    else:
        click.echo("\n".join(report.lines(tool, target, found, best, layers, output)))
    return 0


def _searched(runner: Runner, compiles: int, quiet: bool) -> tuple[Found, Setting, bytes]:
    """What a search found, the best options, and the program that Vela writes for them when it is asked again."""
    from egrl_vela.compiler import DEFAULT
    from egrl_vela.search import search

    model = runner.target.model

    def say(line: str) -> None:
        if not quiet:
            remark("vela", line)

    def progress(found: Found) -> None:
        if ranked := found.ranked():
            best = found.outcomes[ranked[0]].written
            assert best is not None
            gain = found.default.cycles / best.cycles
            say(f"{len(found.outcomes)} of {compiles} compiles, the best {gain:.4f}x")

    say(f"Vela {runner.vela.version}; results in {runner.folder}")
    found = search(runner, compiles, progress)
    if found is None:
        raise InputError(f"{model}: Vela's default fails: {runner.outcomes[DEFAULT].error}")
    if not (ranked := found.ranked()):
        uses = f"{found.default.sram_bytes:,} of {found.room_bytes:,} bytes"
        raise InputError(
            f"{model}: none of {len(found.outcomes)} programs fits; the default uses {uses} of SRAM"
        )
    program = b""
    # A default that was read from the disk may not be Vela's. The best comes last: its program is what is written.
    for setting in dict.fromkeys((*runner.read & {DEFAULT}, ranked[0])):
        outcome, program = runner.again(setting)
        if outcome.written != found.outcomes[setting].written:
            why = outcome.error or "another program for the same options"
            which = "default" if setting == DEFAULT else "best options"
            raise RunFailure(f"{model}: the {which} gave, when compiled again: {why}; delete {runner.folder}")
    return found, ranked[0], program


def _check(model: str, output: str, sram: int, timeout: float) -> None:
    """InputError for what needs no Vela to be refused."""
    path, place = Path(model), output_file(output, ".tflite")
    if path.suffix.lower() != ".tflite" or not path.is_file():
        raise InputError(f"{model}: expected a model of TensorFlow Lite (.tflite), found no such file")
    if place.exists() and place.samefile(path):
        raise InputError(f"--output {output}: expected another file than the model, found the same")
    if sram < 0 or sram % 16:
        raise InputError(f"--sram: expected a multiple of 16 bytes, found {sram}")
    if not (timeout > 0 and math.isfinite(timeout)):
        raise InputError(f"--timeout: expected seconds above 0, found {timeout:g}")
