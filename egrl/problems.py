"""The registry of problems: how one is built from a workload, a chip and its settings."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from egrl.core.registry import ProblemDefinition, ProblemEntry
from hwsim.problem import Problem
from workloads.errors import InputError
from workloads.nearest import one_of


def _nnpi() -> ProblemDefinition:
    from hwsim.nnpi.chip import chip_names, describe, load_chip
    from hwsim.nnpi.problem import NnpiConfig, NnpiProblem
    from workloads.load import load

    def described(name: str) -> dict[str, Any]:
        chip = load_chip(name)
        return {
            "summary": f"problem nnpi: {describe(chip)}",
            "memories": [asdict(memory) for memory in chip.memories],
        }

    return ProblemDefinition(
        NnpiConfig,
        lambda workload, chip, config: NnpiProblem(load(workload), load_chip(chip), config),
        lambda: sorted(chip_names(), key=lambda name: (name != "nnpi", name)),
        described,
        {"invalid": "penalise"},
    )


def _mmap() -> ProblemDefinition:
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

    return ProblemDefinition(
        MmapConfig,
        lambda workload, chip, config: MmapProblem(load_program(workload), load_chip(chip), config),
        lambda: sorted(chip_names(), key=lambda name: (name != "tpuv4i", name)),
        described,
        {"literal_copies": True},
    )


def _mcm() -> ProblemDefinition:
    from hwsim.mcm.config import McmConfig
    from hwsim.mcm.package import describe, load_package, package_names
    from hwsim.mcm.problem import McmProblem
    from workloads.load_partition import load_partition

    def described(name: str) -> dict[str, Any]:
        package = load_package(name)
        return {"summary": f"problem mcm: {describe(package)}", **asdict(package)}

    return ProblemDefinition(
        McmConfig,
        lambda workload, chip, config: McmProblem(load_partition(workload), load_package(chip), config),
        lambda: sorted(package_names(), key=lambda name: (name != "mcm36", name)),
        described,
        {"model": "device"},
    )


def _fft() -> ProblemDefinition:
    from hwsim.fft.files import check_chip, load_size
    from hwsim.fft.problem import FftConfig, FftProblem

    def build(workload: str, chip: str, config: Any) -> Problem:
        check_chip(chip)
        return FftProblem(load_size(workload), config)

    def described(name: str) -> dict[str, Any]:
        from hwsim.fft.host import machine_name

        return {"summary": f"problem fft: this machine ({machine_name()})"}

    return ProblemDefinition(FftConfig, build, lambda: ["host"], described, {})


PROBLEMS: dict[str, ProblemEntry] = {
    "nnpi": ProblemEntry(
        "memory placement on the NNP-I, in seconds an inference", "workload.json", "chip.toml", _nnpi
    ),
    "mmap": ProblemEntry(
        "the MMapGame: a program's buffers in fast memory (CMEM), in simulated seconds a run",
        "program.json",
        "chip.toml",
        _mmap,
    ),
    "mcm": ProblemEntry(
        "a network split over the chips of a multi-chip module, in seconds a sample",
        "workload.json",
        "chip.toml",
        _mcm,
    ),
    "fft": ProblemEntry(
        "plans of fast Fourier transforms (--workload dft-N), in measured seconds on this machine",
        "dft.json",
        "machine.toml",
        _fft,
        "tag",
        "dft-N, a DFT of N points (dft-4096)",
    ),
}


def find_problem(name: str) -> ProblemEntry:
    """The problem called `name`; InputError listing the names where there is none."""
    if name not in PROBLEMS:
        raise InputError(f"--problem: {one_of(name, PROBLEMS)}")
    return PROBLEMS[name]
