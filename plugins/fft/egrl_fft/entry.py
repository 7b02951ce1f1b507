"""What egrl finds by entry points: the problem `fft`, and methods on derivation graphs."""

from __future__ import annotations

from typing import Any

from egrl.core.registry import MethodEntry, ProblemDefinition, ProblemEntry


def _load() -> ProblemDefinition:
    from egrl_fft.files import check_chip, load_size
    from egrl_fft.problem import FftConfig, FftProblem

    def build(workload: str, chip: str, config: Any) -> FftProblem:
        check_chip(chip)
        return FftProblem(load_size(workload), config)

    def described(name: str) -> dict[str, Any]:
        from hwsim.kernel_cache import machine_name

        return {"summary": f"problem fft: this machine ({machine_name()})"}

    return ProblemDefinition(FftConfig, build, lambda: ["host"], described, {})


FFT = ProblemEntry(
    "plans of fast Fourier transforms (--workload dft-N), in measured seconds on this machine",
    "dft.json",
    "machine.toml",
    _load,
    "tag",
    "dft-N, a DFT of N points (dft-4096)",
)
TAG = MethodEntry(
    "egrl_fft.graph_search.tag",
    "threshold ascent on graphs: bandits on partial plans, such as those of an FFT",
)
UCT = MethodEntry("egrl_fft.graph_search.uct", "the graph search of `tag` with UCT's bandits")
RANDOM_PLANS = MethodEntry(
    "egrl_fft.graph_search.random_plans", "plans drawn rule by rule from a problem's derivation (`fft`)"
)
