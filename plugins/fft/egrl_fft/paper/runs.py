"""One search for an FFT plan with a clock beside every evaluation, and the race of what the searches found.

A run has a process of its own and finds no plan measured by another. What does not count as search time: starting,
measuring the default plan, naming the best, and making codelets, since the paper's library was compiled before.
These are kept in the folder of the reproduction, so that each is compiled once.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from egrl.core import atomic, typed_tables
from egrl.core.archive import Archive
from egrl.core.method import Context
from egrl.measure.confirming import NOISE_DEVIATIONS
from egrl.methods import find_method
from egrl.runs.champion import RACE_NOISE, RACERS
from egrl_fft import cache, codelets
from egrl_fft.problem import FftConfig, FftProblem
from hwsim.problem import Evaluation, Status


def kept(out: Path) -> str:
    """Where codelets are kept."""
    return str(out / "kept")


LEAST_S = 1e-3
"""A sample of the race is repeated until it takes so long."""


@dataclass(frozen=True)
class Run:
    """A search to be made.

    Attributes:
        size: N of the DFT.
        label: of the method in the report; method, settings: as `egrl run` takes them.
        seconds, evaluations: it ends at the first of the two.
        first_pass_seconds: dynamic programming, whose first pass ends with the first plans of the whole, may take so
            long for that.
    """

    size: int
    label: str
    method: str
    settings: Mapping[str, Any]
    seed: int
    seconds: float
    evaluations: int
    first_pass_seconds: float

    def path(self, out: Path) -> Path:
        """Its file."""
        return out / "runs" / f"dft-{self.size}-{self.label}-s{self.seed}.json"


class Clock:
    """Seconds of searching: since it was made, less those spent on making codelets."""

    def __init__(self) -> None:
        self._begun = time.perf_counter() - codelets.spent_s()

    def __call__(self) -> float:
        return time.perf_counter() - codelets.spent_s() - self._begun


def search(run: Run, path: str, folder: str) -> None:
    """Run, and write what happened: arrays with an entry an evaluation; the plans that were the best so far as
    `steps`, [search time, evaluations, text]; and `plan`, the winner of a race of its best.

    `folder` is where codelets are kept.
    """
    os.environ[cache.VARIABLE] = str(Path(folder) / "wisdom.json")
    problem = FftProblem(run.size, FftConfig(cache=False))
    definition = find_method(run.method)
    context = Context([problem], Archive([problem]), run.seed, [None])
    method = definition.build(context, typed_tables.build(definition.config, run.settings, run.method))
    at: dict[str, list[float | None]] = {"seconds": [], "cost": [], "partial": [], "vertices": []}
    best, first_pass, exhausted = float("inf"), None, False
    steps: list[tuple[float, int, str]] = []
    whole: dict[str, float] = {}
    compiled, clock = codelets.made(), Clock()

    def spent() -> bool:
        """Whether nothing more is measured; dynamic programming may finish its first pass."""
        if method.metrics().get("pass") == 1.0:
            return clock() >= max(run.seconds, run.first_pass_seconds)
        return len(at["cost"]) >= run.evaluations or clock() >= run.seconds

    while not spent():
        batch = method.ask()
        if batch is None:
            exhausted = True
            break
        if method.metrics().get("pass", 1.0) > 1.0 and first_pass is None:
            first_pass = len(at["cost"])
        parts: list[Evaluation] = []
        batch = batch.numbered(len(at["cost"]))
        while len(parts) < len(batch) and not (parts and spent()):
            row = batch.rows(slice(len(parts), len(parts) + 1))
            found = problem.evaluate(row.mapping, row.tickets.astype(np.uint64))
            parts.append(found)
            ran, part = found.status[0] == Status.OK, bool(found.partial[0])
            cost = float(found.cost[0]) if ran else None
            if cost is not None and not part:
                text = problem.plan_text(found.repaired[0])
                whole[text] = cost
                if cost < best:
                    best = cost
                    steps.append((clock(), len(at["cost"]) + 1, text))
            at["seconds"].append(clock())
            at["cost"].append(cost)
            at["partial"].append(float(part))
            at["vertices"].append(method.metrics().get("vertices", 0.0))
        if len(parts) == len(batch):
            method.tell(batch, Evaluation.concatenate(parts))
    if first_pass is None and exhausted and "pass" in method.metrics():
        first_pass = len(at["cost"])
    document = {
        "run": asdict(run),
        "default_s": problem.baseline.cost,
        "codelets": codelets.made() - compiled,
        "steps": steps,
        "plan": name_winner(whole),
        "first_pass": first_pass,
        "exhausted": exhausted,
        **at,
    }
    atomic.write(Path(path), json.dumps(document) + "\n")


def name_winner(costs: Mapping[str, float]) -> str:
    """The winner of a race of the plans that may be the best by what they were measured to take, as at the end of
    `egrl run`; "" where there is none.
    """
    from egrl_fft import measured
    from egrl_fft.notation import parse

    order = sorted(costs, key=costs.__getitem__)[:RACERS]
    texts = [text for text in order if costs[text] <= costs[order[0]] * (1 + NOISE_DEVIATIONS * RACE_NOISE)]
    if len(texts) < 2:
        return texts[0] if texts else ""
    taken = measured.race([parse(text) for text in texts])
    return texts[taken.index(min(taken))]


def race(size: int, plans: Mapping[str, str], rounds: int) -> dict[str, list[float]]:
    """Seconds of a DFT by each plan (name -> text) and by the rivals outside, in turn, `rounds` times each.

    The order turns every round. pyFFTW takes part where it is installed.
    """
    from egrl_fft.transform import Fft
    from hwsim.measure import loops

    x = np.random.default_rng(0).normal(size=(size, 2)).view(np.complex128)[:, 0]
    calls: dict[str, Callable[[], Any]] = {}
    result = np.empty_like(x)
    for name, text in plans.items():
        calls[name] = partial(Fft(text), x, result)
    calls |= outside(x)
    samplers = []
    for call in calls.values():

        def run(count: int, call: Callable[[], Any] = call) -> float:
            begun = time.perf_counter()
            for _ in range(count):
                call()
            return time.perf_counter() - begun

        run(1)
        samplers.append((run, loops(run, LEAST_S)))
    taken: dict[str, list[float]] = {name: [] for name in calls}
    order = list(zip(calls, samplers, strict=True))
    for number in range(rounds):
        at = number % len(order)
        for name, (run, count) in [*order[at:], *order[:at]]:
            taken[name].append(run(count) / count)
    return taken


def race_to(path: str, size: int, texts: Sequence[str], rounds: int, folder: str) -> None:
    """Write the race of these plans into a file; `folder` is where codelets are kept."""
    os.environ[cache.VARIABLE] = str(Path(folder) / "wisdom.json")
    atomic.write(Path(path), json.dumps(race(size, distinct(texts), rounds)) + "\n")


def outside(x: np.ndarray) -> dict[str, Callable[[], Any]]:
    """The rivals outside by name, each a call that transforms x complex128 [N]."""
    import scipy.fft

    found: dict[str, Callable[[], Any]] = {"numpy": lambda: np.fft.fft(x), "scipy": lambda: scipy.fft.fft(x)}
    try:
        import pyfftw
    except ImportError:
        return found
    source, target = pyfftw.empty_aligned(len(x), "complex128"), pyfftw.empty_aligned(len(x), "complex128")
    fftw = pyfftw.FFTW(source, target, flags=("FFTW_MEASURE",))
    source[:] = x
    return {**found, "pyfftw": fftw.execute}


def distinct(texts: Sequence[str]) -> dict[str, str]:
    """The texts by themselves, each once."""
    return {text: text for text in texts if text}
