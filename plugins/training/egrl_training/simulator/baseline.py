"""The plan that speedups are over: the best of named rules that fits the limit.

Sources:
- "knapsack": the values that save the most seconds per byte are kept, as many as fit (PyTorch's memory budget, solved
  greedily; the measured seconds of ops stand for its estimates).
- "products": what matrix products, convolutions and attention make is kept, all else computed again (selective
  checkpointing, Korthikanti et al., *Reducing Activation Recomputation in Large Transformer Models*, 2022).
- "checkpoints": the forward pass is cut into equal blocks, and only what crosses a cut is kept (Chen et al., *Training
  Deep Nets with Sublinear Memory Cost*, 2016).
- "offload", where there is a host: what is made first, and so waits longest, is kept there, all else on the device (Rhu
  et al., *vDNN: Virtualized Deep Neural Networks for Scalable, Memory-Efficient Neural Network Design*, 2016).

Deviations: what a rule leaves open (how much, how many blocks) is tried out, and the best plan that fits counts. A cut
lies where the least crosses it nearby.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from egrl_training.simulator.exact.fits import find_fit
from egrl_training.simulator.repair import relieved
from egrl_training.simulator.search import annealed
from egrl_training.simulator.simulate import KEEP, OFFLOAD, RECOMPUTE, canonical, simulate, trace
from egrl_training.simulator.tables import Ints, Tables
from egrl_training.steps.step import TrainingStep
from workloads.errors import InputError
from workloads.text import exact_size, size_text

Plan = NDArray[np.int16]
PRODUCTS = ("mm", "conv", "attention", "linear", "matmul", "einsum", "dot")
"""Parts of the names of kinds that are products of tensors."""
SHARES = 40
"""Shares of the bytes that "knapsack" and "offload" try."""
MOST_BLOCKS = 256
MOVES, HOT = 20_000, 0.02
"""Of the search for the least peak: its moves, and its first temperature as a share of the seconds of a step."""
SECONDS = 10.0
"""Time limit of the solver where that finds none."""
NAMED = 4
"""Tensors that an error names, the largest first."""


class Chosen(NamedTuple):
    """A plan int16 [N] that fits, its seconds, and the rule that made it."""

    plan: Plan
    seconds: float
    rule: str


class ShortageError(InputError):
    """No plan within a limit was found.

    Attributes:
        least_bytes: the least peak found.
    """

    def __init__(self, message: str, least_bytes: int) -> None:
        super().__init__(message)
        self.least_bytes = least_bytes


def plans_by_rule(step: TrainingStep, tables: Tables) -> dict[str, Plan]:
    """Plans int16 [N] by the name of the rule and what it was tried with; the same plan only once."""
    found: dict[str, Plan] = {}
    known: set[bytes] = set()
    for name, plan in _all_plans(step, tables):
        if plan.tobytes() not in known:
            known.add(plan.tobytes())
            found[name] = plan
    return found


def _all_plans(step: TrainingStep, t: Tables) -> Iterator[tuple[str, Plan]]:
    decided = np.flatnonzero(t.decision >= 0)
    seconds, size = t.seconds[t.maker[decided]], t.size_bytes[decided]
    count = len(decided)
    yield "keep all", np.full(count, KEEP, np.int16)
    if not count:
        return
    order = np.argsort(-seconds / size, kind="stable")
    shares = np.cumsum(size[order]) / size.sum()
    for k in range(SHARES, 0, -1):
        plan = np.full(count, RECOMPUTE, np.int16)
        plan[order[shares <= k / SHARES]] = KEEP
        yield f"knapsack, {k / SHARES:.1%} of the bytes", plan
    kinds = [step.ops[t.op[k]].kind.lower() for k in t.maker[decided]]
    products = np.array([any(word in kind for word in PRODUCTS) for kind in kinds])
    yield "products", np.where(products, KEEP, RECOMPUTE).astype(np.int16)
    blocks = 2
    while blocks <= min(MOST_BLOCKS, t.turn):
        yield f"checkpoints, {blocks} blocks", _checkpoints(t, blocks)
        blocks += max(1, blocks // 4)
    yield "recompute all", np.full(count, RECOMPUTE, np.int16)
    if t.to_host_s.any():
        may = t.to_host_s[decided] > 0
        order = np.argsort(t.maker[decided], kind="stable")
        shares = np.cumsum((size * may)[order]) / (size * may).sum()
        for k in range(1, SHARES + 1):
            plan = np.full(count, KEEP, np.int16)
            plan[order[(shares <= k / SHARES) & may[order]]] = OFFLOAD
            yield f"offload, {k / SHARES:.1%} of the bytes", plan


def crossing_bytes(t: Tables) -> tuple[Ints, Ints, Ints]:
    """What is made before op k of the forward pass and read by op k or later, there.

    Returns:
        int64 [turn] bytes; int64 [S] each: the first and the last of these ops by storage, the last -1 for none.
    """
    first, last = np.where(t.maker >= 0, t.maker + 1, 0), np.full(len(t.maker), -1, np.int64)
    for k in range(t.turn):
        last[t.inputs[t.input_first[k] : t.input_first[k + 1]]] = k
    made = (t.maker >= 0) & (t.maker < t.turn) & (last >= first)
    last[~made] = -1
    change = np.zeros(t.turn + 1, np.int64)
    np.add.at(change, first[made], t.size_bytes[made])
    np.add.at(change, last[made] + 1, -t.size_bytes[made])
    return np.cumsum(change)[:-1], first, last


def _checkpoints(t: Tables, blocks: int) -> Plan:
    """Keep what crosses the cuts between so many blocks with equally many bytes of decisions."""
    crossing, first, last = crossing_bytes(t)
    weight = np.zeros(t.turn)
    decided = np.flatnonzero(t.decision >= 0)
    np.add.at(weight, t.maker[decided], t.size_bytes[decided].astype(np.float64))
    share = np.cumsum(weight) / weight.sum() * blocks
    plan = np.full(len(decided), RECOMPUTE, np.int16)
    for cut in range(1, blocks):
        near = np.flatnonzero(np.abs(share - cut) <= 0.5)
        near = near[near > 0]
        if len(near):
            k = int(near[crossing[near].argmin()])
            kept = decided[(first[decided] <= k) & (k <= last[decided])]
            plan[t.decision[kept]] = KEEP
    return plan


def choose(step: TrainingStep, t: Tables, limit_bytes: int) -> Chosen:
    """The best plan of the rules that fits; without one, a plan that a search for the least peak finds.

    Raises:
        ShortageError: none of them fits; it names the least peak, where that is and the largest tensors there.
    """
    rules = plans_by_rule(step, t)
    names, plans = list(rules), canonical(t, np.stack(list(rules.values())))
    seconds, peak = simulate(t, plans)
    fits = peak <= limit_bytes
    if fits.any():
        best = int(np.where(fits, seconds, np.inf).argmin())
        return Chosen(plans[best], float(seconds[best]), names[best])
    for row in np.argsort(peak, kind="stable")[:NAMED]:
        plan, fits_now = relieved(t, plans[row], limit_bytes)
        if fits_now:
            plan = canonical(t, plan[None])[0]
            return Chosen(plan, float(simulate(t, plan[None])[0][0]), f"{names[row]}, with less kept")
    least = annealed(t, plans[int(peak.argmin())], limit_bytes, 0, MOVES, HOT)
    plan, impossible = least, False
    if simulate(t, least[None])[1][0] > limit_bytes:
        fit, impossible = find_fit(t, limit_bytes, SECONDS)
        plan = least if fit is None else fit
    plan = canonical(t, plan[None])[0]
    found, peak = simulate(t, plan[None])
    if peak[0] > limit_bytes:
        raise ShortageError(shortage(step, t, plan, limit_bytes, impossible), int(peak[0]))
    return Chosen(plan, float(found[0]), "searched")


def shortage(step: TrainingStep, t: Tables, plan: Plan, limit_bytes: int, impossible: bool) -> str:
    """What is said if even the plan with the least peak is above the limit; `impossible` if no plan can fit."""
    run = trace(t, plan)
    at = int(run.held_bytes.argmax())
    op = step.ops[run.op[at]]
    phase = "forward" if at < run.turn else "backward"
    near = {int(step.owner[n]) for n in (*op.inputs, *op.outputs)}
    largest = sorted(near, key=lambda n: -step.values[n].size_bytes)[:NAMED]
    names = ", ".join(f"{step.label(n)} ({size_text(step.values[n].size_bytes)})" for n in largest)
    return (
        f"{step.name}: expected a limit of at least {exact_size(int(run.held_bytes[at]))}, the least peak found (in the"
        f" {phase} pass at {op.name}: {names}; {size_text(t.fixed_bytes)} are there all the time), found"
        f" {exact_size(limit_bytes)}"
        f"{', within which no plan fits in which an op runs at most once per pass, by proof' if impossible else ''}"
    )
