"""What a critic that learns the terms of parts is worth: `egrl` with and without it, and its rivals.

    python -m benchmarks.terms mcm -o FILE [--variants egrl,untrained,alone] [--workloads tagger,...] [--seeds 3]
    python -m benchmarks.terms mcm -o FILE --workloads all --evals 126
    python -m benchmarks.terms mmap -o FILE --evals 100
    python -m benchmarks.terms mmap-board -o FILE --table

Each line of FILE is one run: the score of its champion after so many evaluations, judged without noise. What is there
is not run again.

- `mcm`: the throughput over the greedy heuristic's on a graph of `mcm87`, a test graph unless others are named. Nothing
  is trained on any: policies begin without the rules that ship. Throughputs have 1 % noise, and the loads of chips and
  links another 5 %.
- `mmap`: the return on a program, by default each that ships. Everything is exact.
- `mmap-board`: the production heuristic's latency over that of a layout, on a simulated board that the chip file does
  not describe: what each buffer moves is off by a factor, lognormal of mean 1 and deviation 0.5. Noise is as on `mcm`.
  The rules of the game are the chip file's.

All begin with the same measurements: the heuristic's mapping, and on `mcm` the cheapest cuts by the chip file
(`--start rules`). `revise` begins with greedy play, too, and searches the chip file's model of the return.

Variants: `egrl`, as it comes; `alone`, without the critic; `untrained`: the critic keeps the prior means that groups of
terms have in the first profiles, and draws from the prior; on `mcm`, `blind`: no rule is measured first, only the
heuristic's partition, as `ppo` and `annealing` begin, and `exact`: as `egrl`, without noise. All others are methods,
which use no parts.

The table has differences of logarithms between `egrl` and each other after as many evaluations, means over seeds, with
their 95 % interval, workloads as units. It says on how many workloads `egrl` ends above and below by more than 0.005.
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
from benchmarks.advance import advance
from benchmarks.lines import Lines
from egrl.methods.profile_model.member import ProfileModelMember
from egrl.methods.profile_model.terms import Posterior, TermsModel
from egrl.problems import build_problem
from egrl.reproduction import interval_text, paired
from hwsim.mmap.device import latency_s
from hwsim.mmap.game import MmapGame
from hwsim.mmap.tables import Tables
from hwsim.problem import Evaluation, Keys, Mapping16
from policies import shipped
from workloads.programs import program_names
from workloads.zoo.mcm87 import split

MARKS = (25, 50, 100, 300, 1000)
OF_MCM = (21, 50, 126, 252, 504)
NOISE, OF_PARTS = 0.01, 0.05
OFF_BY = 0.5
LEVEL = 0.005
OFF = ["method.profile_model.use=off"]
OWN = ("egrl", "alone", "untrained", "blind", "exact")
VARIANTS = {
    "mcm": (*OWN, "annealing", "ppo"),
    "mmap": ("egrl", "alone", "untrained", "annealing", "es", "revise"),
    "mmap-board": ("egrl", "alone", "untrained", "annealing", "es", "revise"),
}
"""Of each problem, those that are run if no others are named."""
ORDER = (*OWN, "annealing", "ppo", "es", "revise")
SETTINGS: dict[str, list[str]] = {"mcm": [], "mmap": [], "mmap-board": ["problem.reward=latency"]}
KEYS = ("workload", "variant", "seed", "evals")


class Bench:
    """Measurements of mappings, and what they are worth without noise."""

    def __init__(self, problem: str, workload: str, variant: str, seed: int) -> None:
        name, chip = ("mcm", "mcm36") if problem == "mcm" else ("mmap", "")
        self.problem: Any = build_problem(name, workload, chip, SETTINGS[problem])
        self._true: Any = self.problem
        if problem == "mmap-board":
            self._true = build_problem(name, workload, chip, SETTINGS[problem])
            tables = off(self.problem.tables, seed)
            self._true.game = MmapGame(tables, self.problem.game.granule_bytes)
            self._true.baseline = replace(
                self.problem.baseline, cost=latency_s(tables, self.problem.own_layout)
            )
        self.marks = OF_MCM if problem == "mcm" else MARKS
        self._rng = np.random.default_rng([seed, 1])
        self._returns = problem == "mmap"
        exact = self._returns or variant == "exact"
        self._noise, self._of_parts = (0.0, 0.0) if exact else (NOISE, OF_PARTS)

    def measure(self, mapping: Mapping16, key: Keys) -> Evaluation:
        """What a board would tell."""
        found: Evaluation = self._true.evaluate(mapping, key)
        assert found.parts is not None
        if self._returns:
            return found
        cost = found.cost * np.exp(self._noise * self._rng.standard_normal(found.cost.shape))
        parts = found.parts * np.exp(self._of_parts * self._rng.standard_normal(found.parts.shape))
        speedup = self._true.baseline.cost / cost
        return replace(found, cost=cost, speedup=speedup, reward=speedup**2, parts=parts.astype(np.float32))

    def score(self, mapping: Mapping16) -> float:
        """Of one mapping, without noise."""
        found = self._true.evaluate(mapping[None], np.zeros(1, np.uint64))
        return float(found.reward[0] if self._returns else found.speedup[0])


def off(tables: Tables, seed: int) -> Tables:
    """The tables of a program whose buffers move other amounts than the chip file's model has."""
    drawn = np.random.default_rng([seed, 2]).standard_normal(len(tables.buffer))
    factor = np.exp(OFF_BY * drawn - OFF_BY**2 / 2)
    buffer, step = tables.buffer.copy(), tables.step.copy()
    for name in ("read_bytes", "write_bytes"):
        moved = np.rint(factor * buffer[name]).astype(np.int64)
        np.add.at(step["traffic_bytes"], buffer["step"], moved - buffer[name])
        buffer[name] = moved
    return tables._replace(buffer=buffer, step=step)


@contextlib.contextmanager
def without_rules() -> Iterator[None]:
    """While no trained rules ship: on most graphs of `mcm87` they were trained, and rivals have none."""
    with mock.patch.object(shipped, "rules", return_value=[]):
        yield


@contextlib.contextmanager
def ablated(variant: str) -> Iterator[None]:
    """While the variant runs."""
    learned = TermsModel._learned

    def prior(critic: TermsModel, data: Any) -> Posterior:
        found = learned(critic, data)
        first = vars(critic).setdefault("first", prior_means(critic, data))
        return replace(
            found, mean=first, factors=[np.zeros_like(f) + np.eye(f.shape[-1]) for f in found.factors]
        )

    with contextlib.ExitStack() as stack:
        if variant == "untrained":
            stack.enter_context(mock.patch.object(TermsModel, "_learned", prior))
        if variant == "blind":
            first = ProfileModelMember._first

            def blind(member: ProfileModelMember) -> Mapping16:
                problem = member._problem
                with mock.patch.object(problem, "baseline", replace(problem.baseline, rules=dict)):
                    return first(member)

            stack.enter_context(mock.patch.object(ProfileModelMember, "_first", blind))
        yield


def prior_means(critic: TermsModel, data: Any) -> Any:
    """The prior of terms by the first profiles."""
    held, seconds = critic._known(data)
    return critic._prior(held, seconds)


def run(problem: str, workload: str, variant: str, seed: int, evals: int) -> dict[str, Any]:
    """One run; the champion's score at the marks."""
    with without_rules():
        return _run(Bench(problem, workload, variant, seed), problem, variant, seed, evals)


def _run(bench: Bench, problem: str, variant: str, seed: int, evals: int) -> dict[str, Any]:
    search = egrl.Search(
        bench.problem,
        method="egrl" if variant in OWN else variant,
        seed=seed,
        settings=OFF if variant == "alone" else [],
        start="rules" if problem == "mcm" and variant != "blind" else "compiler",
    )
    begun, chosen = time.process_time(), {}
    with ablated(variant):
        for mark in [mark for mark in bench.marks if mark <= evals]:
            advance(search, mark, lambda b: search.tell(b, bench.measure(b.proposals.mapping, b.key)))
            mapping = search.result().mapping
            assert mapping is not None
            chosen[str(mark)] = bench.score(mapping)
    return {"chosen": chosen, "seconds": (time.process_time() - begun) / search.evaluations}


def table(lines: Sequence[Mapping[str, Any]]) -> str:
    """Geometric means over workloads at each mark, then the pairs, in Markdown."""
    every = sorted({*MARKS, *OF_MCM})
    marks = [str(mark) for mark in every if all(str(mark) in line["chosen"] for line in lines)]
    found: dict[str, dict[str, dict[str, float]]] = {}
    for variant in sorted({line["variant"] for line in lines}, key=ORDER.index):
        for workload in dict.fromkeys(line["workload"] for line in lines):
            own = [line for line in lines if (line["variant"], line["workload"]) == (variant, workload)]
            if own:
                found.setdefault(variant, {})[workload] = {
                    mark: float(np.mean([np.log(line["chosen"][mark]) for line in own])) for mark in marks
                }
    seeds = {v: 1 + max(line["seed"] for line in lines if line["variant"] == v) for v in found}
    spent = {v: np.median([line["seconds"] for line in lines if line["variant"] == v]) for v in found}
    rows = ["| variant | seeds | workloads | " + " | ".join(marks) + " | s per evaluation |"]
    rows.append("|---" + "|---:" * (len(marks) + 3) + "|")
    for variant, scores in found.items():
        means = [np.exp(np.mean([each[mark] for each in scores.values()])) for mark in marks]
        rows.append(
            f"| `{variant}` | {seeds[variant]} | {len(scores)} | "
            + " | ".join(f"{mean:.4f}" for mean in means)
            + f" | {spent[variant]:.2f} |"
        )
    if "egrl" not in found:
        return "\n".join(rows)
    others = [variant for variant in found if variant != "egrl"]
    rows += [
        "",
        "| `egrl` over | "
        + " | ".join(f"{mark} evaluations each" for mark in marks)
        + " | above, below, within 0.005 |",
    ]
    rows.append("|---" + "|---" * len(marks) + "|---|")
    for other in others:
        both = [w for w in found["egrl"] if w in found[other]]
        pairs = {mark: [(found["egrl"][w][mark], found[other][w][mark]) for w in both] for mark in marks}
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
    parser.add_argument("problem", choices=list(VARIANTS))
    parser.add_argument("-o", dest="out", type=Path, required=True)
    parser.add_argument("--variants", default="")
    parser.add_argument("--workloads", default="")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--evals", type=int, default=100)
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args(argv)
    lines = Lines(args.out, KEYS)
    variants = args.variants.split(",") if args.variants else VARIANTS[args.problem]
    unknown = set(variants) - set(VARIANTS[args.problem])
    if unknown:
        parser.error(
            f"--variants: expected some of {', '.join(VARIANTS[args.problem])}, found {', '.join(unknown)}"
        )
    if not args.table:
        for seed in range(args.seeds):
            for workload in workloads(args.problem, args.workloads):
                for variant in variants:
                    case = (workload, variant, seed, args.evals)
                    if case not in lines:
                        lines.add(case, run(args.problem, *case))
    print(table(lines.all))
    return 0


def workloads(problem: str, named: str) -> Sequence[str]:
    """Those that are named, or a problem's own."""
    parts = split()
    if named == "all" and problem == "mcm":
        return [*parts.test, *parts.validation, *parts.training]
    if named:
        return named.split(",")
    return parts.test if problem == "mcm" else tuple(program_names())


if __name__ == "__main__":
    raise SystemExit(main())
