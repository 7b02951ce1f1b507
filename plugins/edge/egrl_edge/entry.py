"""What egrl finds under the name `banks` (entry point `egrl.problems`)."""

from __future__ import annotations

from egrl.core.registry import ProblemDefinition, ProblemEntry, memories_of, on_chips


def _load() -> ProblemDefinition:
    from egrl_edge.banks.problem import BanksConfig, BanksProblem
    from hwsim.nnpi.chip import chip_names, describe, load_chip
    from workloads.load import load_program

    loaders, names = (load_program, load_chip), (chip_names, "edge")
    return on_chips("banks", BanksConfig, BanksProblem, loaders, names, (describe, memories_of))


BANKS = ProblemEntry(
    "the bank of memory of each tensor of a program that ExecuTorch or another compiler plans, in seconds a run",
    "program.json",
    "chip.toml",
    _load,
    "exact",
)
