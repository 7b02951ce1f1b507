"""What a critic that learns loads is worth on multi-chip modules: `egrl` with and without it, and its rivals.

    python -m benchmarks.mcm_loads -o FILE [--variants egrl,untrained,alone] [--graphs tagger,...] [--seeds 3]
    python -m benchmarks.mcm_loads -o FILE --graphs all --evals 126
    python -m benchmarks.mcm_loads -o FILE --table

Each line of FILE is a run on one graph of `mcm87`, a test graph unless others are named (nothing is trained on any):
the throughput over the greedy heuristic's, without noise, of the champion after so many samples. What is there is not
run again. Throughputs have 1 % noise, unless a variant says otherwise, and the loads of chips and links another 5 %.
All begin with the same measurements, `--start rules`: the heuristic, and the cheapest cuts by the chip file.

Variants: `egrl`, as it comes; `alone`, without the critic; `untrained`: the critic keeps the prior that groups of terms
have in the first profiles, and learns no more; `blind`: no rule is measured first, only the heuristic's partition, as
`ppo` and `annealing` begin; `exact`: as `egrl`, without noise; `annealing` and `ppo`, which use no loads.

The table compares `egrl` with the others after as many samples, and at the last mark: differences of logarithms, of
means over seeds, their 95 % interval with graphs as units, and on how many graphs it is above and below by more than
0.005.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import egrl
from benchmarks.lines import Lines
from egrl.methods.hybrid.critic import CriticMember
from egrl.methods.parts_critic.loads import LoadsCritic, Posterior
from hwsim.mcm.family.family import McmFamily
from hwsim.mcm.package import load_package
from hwsim.mcm.problem import McmProblem
from hwsim.problem import Evaluation, Keys, Mapping16
from papers.shared import interval_text, paired
from workloads.load import load
from workloads.zoo.mcm87 import split

MARKS = (21, 50, 126, 252, 504)
NOISE, OF_LOADS = 0.01, 0.05
LEVEL = 0.005
METHODS = {"annealing": "annealing", "ppo": "ppo"}
OFF = ["method.critic.use=off"]
VARIANTS = ("egrl", "alone", "untrained", "blind", "exact", "annealing", "ppo")
KEYS = ("graph", "variant", "seed", "evals")


class Bench:
    """Measurements of partitions, and what they cost without noise."""

    def __init__(self, graph: str, variant: str, seed: int) -> None:
        self.problem = McmProblem(load(graph), load_package("mcm36"))
        self._rng = np.random.default_rng([seed, 1])
        self._noise, self._of_loads = (0.0, 0.0) if variant == "exact" else (NOISE, OF_LOADS)

    def measure(self, mapping: Mapping16, key: Keys) -> Evaluation:
        """What a board would tell."""
        found = self.problem.evaluate(mapping, key)
        assert found.parts is not None
        cost = found.cost * np.exp(self._noise * self._rng.standard_normal(found.cost.shape))
        parts = found.parts * np.exp(self._of_loads * self._rng.standard_normal(found.parts.shape))
        speedup = self.problem.baseline.cost / cost
        return replace(found, cost=cost, speedup=speedup, reward=speedup**2, parts=parts.astype(np.float32))


@contextlib.contextmanager
def ablated(variant: str) -> Iterator[None]:
    """While the variant runs."""
    learned = LoadsCritic._learned

    def prior(critic: LoadsCritic, data: Any) -> Posterior:
        found = learned(critic, data)
        first = vars(critic).setdefault("first", learned_prior(critic, data))
        return replace(found, mean=first, factor=np.eye(len(first)))

    with contextlib.ExitStack() as stack:
        if variant == "untrained":
            stack.enter_context(mock.patch.object(LoadsCritic, "_learned", prior))
        if variant == "blind":
            first = CriticMember._first

            def blind(member: CriticMember) -> Mapping16:
                with mock.patch.object(McmFamily, "first", return_value={}):
                    return first(member)

            stack.enter_context(mock.patch.object(CriticMember, "_first", blind))
        yield


def learned_prior(critic: LoadsCritic, data: Any) -> Any:
    """The prior of terms by the first profiles."""
    held, load = critic._loads(data)
    return critic._prior(held, load)


def run(graph: str, variant: str, seed: int, evals: int) -> dict[str, Any]:
    """One run; the champion's speedup at the marks."""
    bench = Bench(graph, variant, seed)
    search = egrl.Search(
        bench.problem,
        method=METHODS.get(variant, "egrl"),
        seed=seed,
        settings=OFF if variant == "alone" else [],
        start="compiler" if variant == "blind" else "rules",
    )
    begun, chosen = time.process_time(), {}
    with ablated(variant):
        for mark in [mark for mark in MARKS if mark <= evals]:
            while search.evaluations < mark:
                batch = search.ask(limit=mark - search.evaluations)
                if batch is None:
                    break
                search.tell(batch, bench.measure(batch.proposals.mapping, batch.key))
            mapping = search.result().mapping
            assert mapping is not None
            chosen[str(mark)] = bench.problem.baseline.cost / bench.problem.model_cost(mapping)
    return {"chosen": chosen, "seconds": (time.process_time() - begun) / search.evaluations}


def table(lines: Sequence[Mapping[str, Any]]) -> str:
    """Geometric means over graphs at each mark, then the pairs, in Markdown."""
    marks = [str(mark) for mark in MARKS if all(str(mark) in line["chosen"] for line in lines)]
    found: dict[str, dict[str, dict[str, float]]] = {}
    for variant in VARIANTS:
        for graph in dict.fromkeys(line["graph"] for line in lines):
            own = [line for line in lines if (line["variant"], line["graph"]) == (variant, graph)]
            if own:
                found.setdefault(variant, {})[graph] = {
                    mark: float(np.mean([np.log(line["chosen"][mark]) for line in own])) for mark in marks
                }
    seeds = {v: 1 + max(line["seed"] for line in lines if line["variant"] == v) for v in found}
    spent = {v: np.median([line["seconds"] for line in lines if line["variant"] == v]) for v in found}
    rows = ["| variant | seeds | graphs | " + " | ".join(marks) + " | s per sample |"]
    rows.append("|---" + "|---:" * (len(marks) + 3) + "|")
    for variant, graphs in found.items():
        means = [np.exp(np.mean([each[mark] for each in graphs.values()])) for mark in marks]
        rows.append(
            f"| `{variant}` | {seeds[variant]} | {len(graphs)} | "
            + " | ".join(f"{mean:.4f}" for mean in means)
            + f" | {spent[variant]:.2f} |"
        )
    others = [variant for variant in found if variant != "egrl"]
    rows += [
        "",
        "| `egrl` over | "
        + " | ".join(f"{mark} samples each" for mark in marks)
        + " | above, below, level |",
    ]
    rows.append("|---" + "|---" * len(marks) + "|---|")
    for other in others:
        both = [graph for graph in found["egrl"] if graph in found[other]]
        pairs = {mark: [(found["egrl"][g][mark], found[other][g][mark]) for g in both] for mark in marks}
        cells = [
            interval_text(paired(*(list(each) for each in zip(*pairs[mark], strict=True)))).strip(" ()")
            for mark in marks
        ]
        off = [own - theirs for own, theirs in pairs[marks[-1]]]
        above, below = sum(each > LEVEL for each in off), sum(each < -LEVEL for each in off)
        rows.append(
            f"| `{other}` | " + " | ".join(cells) + f" | {above}, {below}, {len(off) - above - below} |"
        )
    return "\n".join(rows)


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing, or print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", dest="out", type=Path, required=True)
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--graphs", default=",".join(split().test))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--evals", type=int, default=MARKS[-1])
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args(argv)
    lines, parts = Lines(args.out, KEYS), split()
    every = [*parts.test, *parts.validation, *parts.training]
    graphs = every if args.graphs == "all" else args.graphs.split(",")
    if not args.table:
        for seed in range(args.seeds):
            for variant in args.variants.split(","):
                for graph in graphs:
                    case = (graph, variant, seed, args.evals)
                    if case not in lines:
                        lines.add(case, run(*case))
    print(table(lines.all))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
