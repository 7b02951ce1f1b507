"""What a policy that was trained on one network places on networks of other families, with no training there.

    python -m benchmarks.placing_transfer -o FILE [--arms begin,search,chips] [--networks graph_unet,linear]
    python -m benchmarks.placing_transfer -o FILE --table

`begin`: the policy that `egrl` begins with when nothing was trained (`method.shipped=false`). `search`: the one that it
ends with, after 400 evaluations of the source, told totals alone. `chips`: the first one, trained by the gradient of
its scores on the source and on 15 chips drawn around its own (`egrl pretrain --method rank --chips-around 15`), with
8,000 evaluations, and no network but the source.

Sources and targets are the 24 networks of `benchmarks.placing`. A line is one policy: its one mapping's speedup over
the default rule on each target. The table has the mean logarithm over the targets of other families than the source's,
and its 95 % interval by Student's t over the families of sources.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import egrl
from benchmarks.lines import Lines
from benchmarks.placing_pairs import TESTED, family_of
from egrl.methods.placed import place
from egrl.reproduction import mean_interval
from egrl.runs.folder import policies_in
from egrl.runs.past_run import PastRun
from egrl.transfer.pretrain import pretrain
from egrl.transfer.validation import PretrainOptions
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiProblem
from workloads.load import load

ARMS = ("begin", "search", "chips")
NETWORKS = ("graph_unet", "linear")
SHAPE = {"network.depth": 1, "network.width": 16, "network.attention_heads": 2}
EVALS, CHIPS, TRAINED_EVALS = 400, 15, 8_000


def searched(source: str, network: str, evals: int, folder: Path) -> Path:
    """The policy of `egrl` after so many evaluations of a source; with one, that it begins with."""
    shape = f"method.network.name={network}"
    settings = ["method.profile_model.use=off", "method.shipped=false", shape]
    run = egrl.search(source, method="egrl", evals=evals, settings=settings, out=folder)
    policies = PastRun.read(run.folder).policies()
    return policies[max(policies)]


def trained(source: str, network: str, folder: Path) -> Path:
    """The policy of a source and of drawn chips."""
    first = searched(source, network, 1, folder / "first")
    options = PretrainOptions(
        (source,),
        method="rank",
        evals=TRAINED_EVALS,
        save_every=10_000,
        chips_around=CHIPS,
        init=str(first),
        method_settings={**SHAPE, "network.name": network},
    )
    pretrain(options, folder / "trained")
    policies = policies_in(folder / "trained")
    return policies[max(policies)]


def policy_of(source: str, arm: str, network: str, folder: Path) -> Path:
    """The policy of an arm."""
    if arm == "chips":
        return trained(source, network, folder)
    return searched(source, network, 1 if arm == "begin" else EVALS, folder / arm)


def speedups(policy: Path, targets: Mapping[str, NnpiProblem]) -> dict[str, float]:
    """Target -> speedup of the policy's one mapping over the default rule."""
    found = {}
    for name, problem in targets.items():
        mapping = place(problem, policy, judged=False).mapping
        found[name] = float(problem.evaluate(mapping[None], np.zeros(1, np.uint64)).speedup[0])
    return found


def table(lines: list[dict[str, Any]]) -> None:
    """Print the mean logarithm of each arm over other families, and how many targets are slower."""
    print("| trained on | network | sources | mean log speedup elsewhere | slower than the default rule, % |")
    print("|---|---|---|---|---|")
    for arm, network in dict.fromkeys((line["arm"], line["network"]) for line in lines):
        own = [line for line in lines if (line["arm"], line["network"]) == (arm, network)]
        families: dict[str, list[float]] = {}
        every = []
        for line in own:
            family = family_of(line["source"])
            there = [np.log(x) for name, x in line["speedup"].items() if family_of(name) != family]
            families.setdefault(family, []).append(float(np.mean(there)))
            every += there
        found = mean_interval([float(np.mean(values)) for values in families.values()])
        assert found is not None
        gain = f"{found['mean']:+.3f} [{found['low']:+.3f}, {found['high']:+.3f}]"
        print(f"| {arm} | {network} | {len(own)} | {gain} | {100 * np.mean(np.array(every) < 0):.0f} |")


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    lines = Lines(given.output, ("source", "arm", "network"))
    targets = {name: NnpiProblem(load(name), load_chip("nnpi")) for name in TESTED}
    for arm in () if given.table else given.arms.split(","):
        for network in given.networks.split(","):
            for source in TESTED:
                if (source, arm, network) not in lines:
                    with tempfile.TemporaryDirectory() as folder:
                        policy = policy_of(source, arm, network, Path(folder))
                        lines.add((source, arm, network), {"speedup": speedups(policy, targets)})
    table(lines.all)


if __name__ == "__main__":
    main()
