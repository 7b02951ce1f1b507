"""The registry of problems: how one is built from a workload, a chip and its settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hwsim.problem import Problem
from workloads.errors import InputError


@dataclass(frozen=True)
class Definition:
    """How the command line builds a problem.

    Attributes:
        config: dataclass of its settings.
        build: (workload name or file, chip name or file, config) -> Problem; InputError where they are wrong.
        chips: names of the chips that ship with it; the first is the default.
        describe: chip name -> what `egrl list chips` shows of it, a line "summary" among it.
        paper: the settings of `--preset paper`.
        races: whether a config has costs measured on this machine (`HasRace`), the baseline's anew in each run.
    """

    config: type
    build: Callable[[str, str, Any], Problem]
    chips: Callable[[], Sequence[str]]
    describe: Callable[[str], dict[str, Any]]
    paper: dict[str, Any]
    races: Callable[[Any], bool] = lambda config: False


@dataclass(frozen=True)
class Entry:
    """A problem in the registry: one line about it, its files in a run folder, how to import it, its rival, the
    method that searches it where none is named, what an evaluation measures, and what --workload takes.
    """

    summary: str
    workload_file: str
    chip_file: str
    load: Callable[[], Definition]
    rival: str = "the compiler"
    method: str = "egrl"
    measured: str = "inferences"
    workloads: str = "a name or a file; `egrl list workloads` shows the names"


def _nnpi() -> Definition:
    from hwsim.nnpi.chip import chip_names, describe, load_chip
    from hwsim.nnpi.problem import NnpiConfig, NnpiProblem
    from workloads.load import load

    def described(name: str) -> dict[str, Any]:
        chip = load_chip(name)
        return {
            "summary": f"problem nnpi: {describe(chip)}",
            "memories": [asdict(memory) for memory in chip.memories],
        }

    return Definition(
        NnpiConfig,
        lambda workload, chip, config: NnpiProblem(load(workload), load_chip(chip), config),
        lambda: sorted(chip_names(), key=lambda name: (name != "nnpi", name)),
        described,
        {"invalid": "penalise"},
    )


def _mmap() -> Definition:
    from hwsim.mmap.chip import chip_names, describe, load_chip
    from hwsim.mmap.problem import MmapConfig, MmapProblem
    from workloads.load_program import load_program

    def described(name: str) -> dict[str, Any]:
        chip = load_chip(name)
        return {
            "summary": f"problem mmap: {describe(chip)}",
            "cmem": asdict(chip.cmem),
            "hbm": asdict(chip.hbm),
        }

    return Definition(
        MmapConfig,
        lambda workload, chip, config: MmapProblem(load_program(workload), load_chip(chip), config),
        lambda: sorted(chip_names(), key=lambda name: (name != "tpuv4i", name)),
        described,
        {"literal_copies": True},
    )


def _mcm() -> Definition:
    from hwsim.mcm.package import describe, load_package, package_names
    from hwsim.mcm.problem import McmConfig, McmProblem
    from workloads.load_partition import load_partition

    def described(name: str) -> dict[str, Any]:
        package = load_package(name)
        return {"summary": f"problem mcm: {describe(package)}", **asdict(package)}

    return Definition(
        McmConfig,
        lambda workload, chip, config: McmProblem(load_partition(workload), load_package(chip), config),
        lambda: sorted(package_names(), key=lambda name: (name != "mcm36", name)),
        described,
        {"model": "device"},
    )


def _fft() -> Definition:
    from hwsim.fft.problem import FftConfig, FftProblem, check_chip, load_size

    def build(workload: str, chip: str, config: Any) -> Problem:
        check_chip(chip)
        return FftProblem(load_size(workload), config)

    def described(name: str) -> dict[str, Any]:
        from hwsim.fft.host import machine_name

        return {"summary": f"problem fft: this machine ({machine_name()})"}

    return Definition(FftConfig, build, lambda: ["host"], described, {}, lambda config: config.races)


PROBLEMS: dict[str, Entry] = {
    "nnpi": Entry(
        "memory placement on the NNP-I, in seconds an inference", "workload.json", "chip.toml", _nnpi
    ),
    "mmap": Entry(
        "the MMapGame: a program's buffers in fast memory (CMEM), in simulated seconds a run",
        "program.json",
        "chip.toml",
        _mmap,
        "the production heuristic",
        measured="programs",
    ),
    "mcm": Entry(
        "a network split over the chips of a multi-chip module, in seconds a sample",
        "workload.json",
        "chip.toml",
        _mcm,
        "the heuristic",
        measured="partitions",
    ),
    "fft": Entry(
        "plans of fast Fourier transforms (--workload dft-N), in measured seconds on this machine",
        "dft.json",
        "machine.toml",
        _fft,
        "the default plan",
        "tag",
        "plans",
        "dft-N, a DFT of N points (dft-4096)",
    ),
}


def find(name: str) -> Entry:
    """The problem called `name`; InputError listing the names where there is none."""
    if name not in PROBLEMS:
        raise InputError(f"--problem: expected one of {', '.join(PROBLEMS)}, found {name!r}")
    return PROBLEMS[name]


def rival(name: str) -> str:
    """What speedups of a problem are over, for people: "the compiler"."""
    return PROBLEMS[name].rival if name in PROBLEMS else "the baseline"


def measured(name: str) -> str:
    """What the evaluations of a problem measure, for people: "inferences"."""
    return PROBLEMS[name].measured if name in PROBLEMS else "mappings"


def start_word(name: str, start: str) -> str:
    """What a run on a problem began with, for people: `--start compiler` is its rival, by the rival's own name."""
    return rival(name).removeprefix("the ") if start == "compiler" else start
