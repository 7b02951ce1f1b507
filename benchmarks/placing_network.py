"""The context network that ships: trained on drawn networks and chips, and what it reaches on families left out.

    python -m benchmarks.placing_network draw -o DRAWN.pickle [--kind zoo|invented|chips --seeds 6000 --workers 2]
    python -m benchmarks.placing_network train DRAWN.pickle … -o NETWORK.safetensors [--without a,b --rounds 6000]
    python -m benchmarks.placing_network test NETWORK.safetensors --networks bert,gpt2,model.onnx,… [--chips 3]
    python -m benchmarks.placing_network chips NETWORK.safetensors [RULES.json] [-o FILE.json]
    python -m benchmarks.placing_network table FOLDER [-o FILE.json]

`train` prints the share of the headroom that the network's own mapping, and the best of sixteen, reach on drawn
instances of the families left out, and on those that it was trained on. `test` does so for networks on
`nnpi`, or on drawn chips around it, `chips` for networks on the other chip files. `table` has networks and rules
(`placing_train folds`) that were trained without the family of each of 24 networks.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.placing_pairs import LEAST, TESTED, chip_of, family_of
from benchmarks.placing_varied import KINDS, ZOO, Instance, measured, read, write
from egrl.methods.placed import SAMPLES, with_noise
from egrl.methods.rank.config import RankConfig, ScoreGradientConfig
from egrl.methods.rank.gradient import ScoreGradient
from hwsim.nnpi.chip import load_chip, spread
from hwsim.nnpi.place_features import FEATURE_NAMES
from hwsim.nnpi.tables import build_tables
from policies.network import CONTEXT, NetworkConfig
from policies.ranker import SPREAD, Rankers, by_hand
from policies.ranking_module import RankingModule
from policies.store import load_policy, ranker_policy, ranker_weights, rankers_of, save_policy
from policies.weight_vector import Weights
from workloads.errors import InputError
from workloads.load import load

ROUNDS, INPUT_NOISE, SHOWN = 6000, 0.15, 1000
HARDNESS, LEAST_LEFT = 0.0, 0.05
NETWORK = NetworkConfig(name=CONTEXT, width=48)
BATCH = RankConfig()
NNPI, TEST_STEPS = "nnpi", 300_000
SHIPPED_RULES = Path("policies/rules/nnpi.json")


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


def tested(names: Sequence[str], chips: int, chip_file: str) -> list[Instance]:
    """Networks on a chip file, or each on so many drawn chips around it; those on which there is something to gain."""
    found = []
    for number, name in enumerate(names):
        for chip in range(max(chips, 1)):
            rng = np.random.default_rng([5, number, chip])
            spread_of = spread(len(load_chip(chip_file).memories))
            factors = rng.uniform(-spread_of, spread_of).round(4).tolist() if chips else []
            try:
                tables = build_tables(load(name), chip_of(factors, chip_file))._replace(sigma=0.0)
            except InputError as error:
                print(f"{name}: left out: {error}")
                continue
            found.append(measured(name, [], tables, 7, TEST_STEPS, restarts=2))
    return [instance for instance in found if instance.headroom > LEAST]


def path_without(folder: Path, family: str) -> Path:
    """The file of the network of a folder that was trained without a family."""
    for path in sorted(folder.glob("*.safetensors")):
        if family in load_policy(path).metadata["without"]:
            return path
    raise SystemExit(f"{folder}: expected a network that was trained without {family}, found none")


CHIP_FILES = ("edge", "npu", "quad", "h100", "tpuv4i")
"""Chip files that nothing is trained on."""
ON_CHIPS = (
    *TESTED,
    *("resnet50", "mobilenet_v2", "efficientnet_b0", "bert:layers=6:length=512"),
    "llama3_8b:layers=15:heads=4:kv_heads=2:vocabulary=1000:length=512:hidden=128:intermediate=256",
    "llama3_8b:layers=8:heads=8:kv_heads=2:vocabulary=8000:length=128:hidden=1024:intermediate=2816",
)
"""Networks that are tested on them."""


def on_chips(network: Path, rules: Path, output: Path | None) -> None:
    """Print, for each of `CHIP_FILES`, shares of the headroom of what a network and rules place, and the slowest.

    Beside them stands what no training gives: as many rules as there are mappings in all, drawn around the one by hand.
    Of a network that was trained without some families, on networks of these alone. Rows go to `output`, if given.
    """
    policy = load_policy(network)
    rankers = rankers_of(policy)
    weights, without = ranker_weights(policy, rankers), set(policy.metadata.get("without", []))
    names = [name for name in ON_CHIPS if not without or family_of(name) in without]
    own_rules = np.array(json.loads(rules.read_text())["rules"], np.float32)
    untrained, rows = drawn_rules(SAMPLES + len(own_rules)), []
    titles = ("", "networks", *TITLES, "drawn rules", "slowest of the network")
    print("| " + " | ".join(titles) + " |\n|---" + "|---:" * (len(titles) - 1) + "|")
    for chip in CHIP_FILES:
        instances = tested(names, 0, chip)
        found = [
            {
                **_row(i, rankers, weights, own_rules),
                "drawn": float((i.base / i.costs_of_rules(untrained)).max()),
            }
            for i in instances
        ]
        rows += [{"chip": chip, **row} for row in found]
        if found:
            mean = np.log([[row[column] for column in (*COLUMNS, "drawn")] for row in found]).mean(axis=0)
            shares = " | ".join(f"{value:.2f}" for value in mean / mean[len(COLUMNS) - 1])
            print(
                f"| `{chip}` | {len(found)} | {shares} | {min(row['network'] for row in found):.3f} |",
                flush=True,
            )
    if output is not None:
        output.write_text(json.dumps(rows, indent=1) + "\n")


def drawn_rules(count: int) -> np.ndarray:
    """The rule by hand, and others drawn around it, float32 [count, P]; always the same."""
    hand, rng = by_hand(FEATURE_NAMES, 2), np.random.default_rng(0)
    others = hand + SPREAD * rng.standard_normal((count - 1, len(hand)))
    return np.concatenate([hand[None], others]).astype(np.float32)


def _row(instance: Instance, rankers: Rankers, weights: Weights, rules: np.ndarray) -> dict[str, Any]:
    """Speedups of what a network and rules [R, P] place, of the compiler's best rule, and of an annealing."""
    own = speedups(rankers, weights, instance)
    of_rules = instance.base / instance.costs_of_rules(rules)
    best = max(own.max(), of_rules.max())
    limits = (instance.base / instance.best_rule, instance.base / instance.best)
    found = map(float, (own[0], own.max(), of_rules[0], of_rules.max(), best, *limits))
    return {"name": instance.name, **dict(zip(COLUMNS, found, strict=True))}


COLUMNS = ("network", "of_16", "rule", "of_rules", "all", "compiler", "annealing")
TITLES = ("network", "of 16", "first rule", "of the rules", "of all", "of the compiler's 12", "annealing")
"""Of the table: names in the file, and titles."""


def table(folder: Path, output: Path | None) -> None:
    """Speedups of what networks and rules place that know nothing of a network's family, and shares of the headroom.

    They are printed, and written to `output`, if given, as JSON.
    """
    rows = []
    print("| | " + " | ".join(TITLES) + " |\n|---" + "|---:" * len(TITLES) + "|")
    for i in tested(TESTED, 0, NNPI):
        family = family_of(i.name)
        policy = load_policy(path_without(folder, family))
        rankers = rankers_of(policy)
        rules = json.loads((folder / f"{family.replace(' ', '-')}.json").read_text())["rules"]
        rows.append(_row(i, rankers, ranker_weights(policy, rankers), np.array(rules, np.float32)))
        print(
            f"| {i.name} | " + " | ".join(f"{rows[-1][column]:.4f}" for column in COLUMNS) + " |", flush=True
        )
    mean = np.log([[row[column] for column in COLUMNS] for row in rows]).mean(axis=0)
    print("| share of headroom | " + " | ".join(f"{value:.2f}" for value in mean / mean[-1]) + " |")
    if output is not None:
        output.write_text(json.dumps(rows, indent=1) + "\n")


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("draw", "train", "test", "chips", "table"))
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
    parser.add_argument("--networks", default=",".join(TESTED))
    parser.add_argument("--chips", type=int, default=0, help="drawn chips for each network; 0: nnpi")
    given = parser.parse_args()
    if given.what == "draw":
        write(given.output, range(given.seeds), given.kind, given.workers)
    elif given.what == "train":
        without = {name for name in given.without.split(",") if name}
        drawn = [instance for path in given.file for instance in read(path)]
        network = NetworkConfig(name=given.network, width=given.width, depth=given.depth)
        how = {"rounds": given.rounds, "input_noise": given.input_noise, "seed": given.seed}
        rankers, weights = trained(drawn, without, **how, network=network, hardness=given.hardness)
        free = {"without": sorted(without), "hardness": given.hardness, **how}
        policy = ranker_policy(weights, rankers, heads=("weight", "activation"), choices=3, **free)
        save_policy(given.output, policy.weights, policy.metadata)
    elif given.what == "table":
        table(given.file[0], given.output)
    elif given.what == "chips":
        on_chips(given.file[0], given.file[1] if given.file[1:] else SHIPPED_RULES, given.output)
    else:
        policy = load_policy(given.file[0])
        rankers = rankers_of(policy)
        weights = ranker_weights(policy, rankers)
        without = set(policy.metadata.get("without", []))
        names = [n for n in given.networks.split(",") if n and (not without or family_of(n) in without)]
        instances = tested(names, given.chips, NNPI)
        for i in instances:
            own = speedups(rankers, weights, i)
            row = {"network": i.name, "reach": i.base / i.best, "rules": i.base / i.best_rule}
            print(json.dumps(row | {"one": own[0], "of_16": own.max()}))
        print(summary("all", rankers, weights, instances))


if __name__ == "__main__":
    main()
