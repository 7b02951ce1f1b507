"""Plans by named rules: what people do by hand, and what PyTorch does.

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

import numpy as np
from numpy.typing import NDArray

from egrl_training.simulator.simulate import KEEP, OFFLOAD, RECOMPUTE
from egrl_training.simulator.tables import Ints, Tables
from egrl_training.steps.step import TrainingStep

Plan = NDArray[np.int16]
PRODUCTS = ("mm", "conv", "attention", "linear", "matmul", "einsum", "dot")
"""Parts of the names of kinds that are products of tensors."""
SHARES = 40
"""Shares of the bytes that "knapsack" and "offload" try."""
MOST_BLOCKS = 256


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
