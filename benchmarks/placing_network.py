"""The context network that ships, trained on drawn networks and chips.

    python -m benchmarks.placing_network draw -o DRAWN.pickle [--kind zoo|invented|chips --seeds 6000 --workers 2]
    python -m benchmarks.placing_network train DRAWN.pickle … -o NETWORK.safetensors [--without a,b --rounds 6000]

`train` prints the share of the headroom that the network's own mapping, and the best of sixteen, reach on drawn
instances of the families left out, and on those that it was trained on.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.placing_varied import KINDS, ZOO, Instance, read, write
from egrl.methods.placed import SAMPLES, with_noise
from egrl.methods.rank.config import RankConfig, ScoreGradientConfig
from egrl.methods.rank.gradient import ScoreGradient
from hwsim.nnpi.place_features import FEATURE_NAMES
from policies.network import CONTEXT, NetworkConfig
from policies.ranker import Rankers
from policies.ranking_module import RankingModule
from policies.store import ranker_policy, save_policy
from policies.weight_vector import Weights

ROUNDS, INPUT_NOISE, SHOWN = 6000, 0.15, 1000
HARDNESS, LEAST_LEFT = 0.0, 0.05
NETWORK = NetworkConfig(name=CONTEXT, width=48)
BATCH = RankConfig()


def speedups(rankers: Rankers, weights: Weights, instance: Instance) -> np.ndarray:
    """Over the default rule, float64 [SAMPLES]: of the mapping itself, then of those placed with noise."""
    scores, free = rankers.scores(weights[None], instance.places)
    return np.asarray(instance.base / instance.costs(with_noise(scores), np.repeat(free, SAMPLES)))


def summary(name: str, rankers: Rankers, weights: Weights, instances: Sequence[Instance]) -> str:
    """Shares of the headroom."""
    found = np.log([speedups(rankers, weights, instance) for instance in instances])
    reach = np.mean([instance.headroom for instance in instances])
    rules = np.mean([np.log(instance.base / instance.best_rule) for instance in instances])
    return (
        f"{name} ({len(instances)}): one {found[:, 0].mean() / reach:.3f}, best of {SAMPLES}"
        f" {found.max(axis=1).mean() / reach:.3f}, best of 12 rules {rules / reach:.3f}, worst"
        f" {np.exp(found[:, 0].min()):.3f}"
    )


def trained(
    drawn: list[Instance],
    without: set[str],
    rounds: int,
    input_noise: float,
    seed: int,
    network: NetworkConfig = NETWORK,
    hardness: float = HARDNESS,
) -> tuple[Rankers, Weights]:
    """A network trained on the instances that have nothing of some families.

    An instance is drawn with a probability proportional to the power `hardness` of the share of the headroom that the
    compiler's best rule leaves.
    """
    held = [i for i in drawn if without & set(i.families)]
    kept = [i for i in drawn if not without & set(i.families)]
    left = np.array([1 - np.log(i.base / i.best_rule) / i.headroom for i in kept])
    odds = np.maximum(left, LEAST_LEFT) ** hardness
    odds /= odds.sum()
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    module, rng = RankingModule(FEATURE_NAMES, 2, network), np.random.default_rng(seed)
    module.see([instance.places for instance in kept])
    config = ScoreGradientConfig(rounds=rounds)
    training = ScoreGradient(module, config.longest, input_noise)
    rankers = Rankers(network, FEATURE_NAMES, 2)
    for number in range(1, rounds + 1):
        chosen = [kept[k] for k in rng.choice(len(kept), BATCH.tasks, replace=False, p=odds)]
        sigma = config.sigma(training.rounds)
        draws = training.begin([instance.places for instance in chosen], BATCH.samples, sigma, rng)
        losses = [i.losses(d.scores, d.free_share) for i, d in zip(chosen, draws, strict=True)]
        training.end(draws, losses, config.rate(training.rounds))
        if number % SHOWN == 0 or number == rounds:
            for name, instances in (("left out", held[:250]), ("trained on", kept[:250])):
                if instances:
                    print(number, summary(name, rankers, module.weights(), instances), flush=True)
    return rankers, module.weights()


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("draw", "train"))
    parser.add_argument("file", nargs="*", type=Path)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--seeds", type=int, default=6000)
    parser.add_argument("--kind", default=ZOO, choices=KINDS)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--input-noise", type=float, default=INPUT_NOISE)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--hardness", type=float, default=HARDNESS)
    parser.add_argument("--network", default=NETWORK.name, help="linear, mlp, context, graph_unet, …")
    parser.add_argument("--width", type=int, default=NETWORK.width)
    parser.add_argument("--depth", type=int, default=NETWORK.depth)
    parser.add_argument("--without", default="", help="families, with commas between")
    given = parser.parse_args()
    if given.what == "draw":
        write(given.output, range(given.seeds), given.kind, given.workers)
        return
    without = {name for name in given.without.split(",") if name}
    drawn = [instance for path in given.file for instance in read(path)]
    network = NetworkConfig(name=given.network, width=given.width, depth=given.depth)
    how = {"rounds": given.rounds, "input_noise": given.input_noise, "seed": given.seed}
    rankers, weights = trained(drawn, without, **how, network=network, hardness=given.hardness)
    free = {"without": sorted(without), "hardness": given.hardness, **how}
    policy = ranker_policy(weights, rankers, heads=("weight", "activation"), choices=3, **free)
    save_policy(given.output, policy.weights, policy.metadata)


if __name__ == "__main__":
    main()
