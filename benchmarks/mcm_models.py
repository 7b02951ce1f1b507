"""How the analytical model and the device model of multi-chip modules agree on partitions drawn by SAMPLE.

    python -m benchmarks.mcm_models [--workload bert] [--chip mcm36] [--samples 2000] [-o FILE.png]

The study of Figure 7 of the paper on multi-chip modules: uniform probabilities, both models' costs over their least. It
prints how many keys got a partition, the share that does not run on the device, and the correlation of the others.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from analysis.style import save
from hwsim.mcm.config import McmConfig
from hwsim.mcm.package import load_package
from hwsim.mcm.problem import McmProblem
from papers.mcm.figures import agreement_figure
from papers.mcm.numbers import compare_models
from workloads.load_partition import load_partition


def main() -> None:
    """Print one line per workload, and draw the last."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workload", nargs="+", default=["bert"])
    parser.add_argument("--chip", default="mcm36")
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("-o", "--output", default="")
    given = parser.parse_args()
    for name in given.workload:
        problem = McmProblem(load_partition(name), load_package(given.chip), McmConfig())
        found, partitions = compare_models(problem, given.samples)
        print(
            f"{problem.about.workload} on {problem.about.chip}: {partitions} of {given.samples} keys;"
            f" {found.invalid:.1%} do not run; correlation {found.pearson:.4f}",
            flush=True,
        )
    if given.output:
        save(agreement_figure(found, f"{problem.about.workload} on {problem.about.chip}"), Path(given.output))


if __name__ == "__main__":
    main()
