"""Invented networks to train rankings on."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.placing_invented import MOST_OPS, invented, invented_chip
from benchmarks.placing_pairs import chip_of
from benchmarks.placing_varied import CHIPS, INVENTED, varied
from hwsim.nnpi.place_features import FEATURE_NAMES
from hwsim.nnpi.tables import build_tables
from policies.ranker import by_hand


def test_invented_networks_are_as_large_as_they_were_drawn_and_always_the_same():
    drawn = [invented(seed) for seed in range(60)]
    again = invented(7)
    assert again == drawn[7]
    assert len({len(workload) for workload in drawn}) > 20
    assert max(len(workload) for workload in drawn) < 2 * MOST_OPS
    for workload in drawn:
        weights = sum(op.weight_bytes for op in workload)
        assert 2**22 < weights < 2**29
        assert 2**13 < max(op.output_bytes for op in workload) < 2**24
        assert workload.ops[-1].is_output
        assert build_tables(workload, chip_of([])).compute_s.sum() > 0


def test_invented_networks_have_the_surroundings_that_families_have():
    """Values that are read again a block later, or much later; chains; rows of tables; ops without a weight."""
    reach, rows, vectors = [], 0, 0
    for seed in range(60):
        ops = invented(seed).ops
        at = {op.name: place for place, op in enumerate(ops)}
        spans = [place - at[edge.source] for place, op in enumerate(ops) for edge in op.inputs]
        reach.append(max(spans, default=0) / len(ops))
        rows += any(op.weight_read_bytes < op.weight_bytes for op in ops)
        vectors += any(op.gemm is None for op in ops)
    assert sum(share < 0.05 for share in reach) > 5
    assert sum(share > 0.5 for share in reach) > 5
    assert 5 < rows < 40
    assert 20 < vectors < 60


def test_an_instance_of_an_invented_network_has_something_to_gain():
    found = [instance for seed in range(12) if (instance := varied(seed, INVENTED)) is not None]
    assert len(found) > 3
    for instance in found:
        assert set(instance.families) == {INVENTED}
        assert instance.best < instance.base


def test_invented_chips_are_of_all_kinds_and_always_the_same():
    chips = [invented_chip(seed) for seed in range(60)]
    assert invented_chip(7) == chips[7]
    assert {len(chip.memories) for chip in chips} == {2, 3, 4}
    assert (
        {chip.effects.cross for chip in chips} == {chip.effects.prefetch for chip in chips} == {True, False}
    )
    slow = [chip.memories[0].bandwidth_Bps for chip in chips]
    assert max(slow) > 100 * min(slow)
    for chip in chips:
        sizes = [memory.capacity_bytes for memory in chip.memories]
        assert sizes == sorted(sizes, reverse=True)


@pytest.mark.slow
def test_instances_on_invented_chips_can_train_rules():
    found = [instance for seed in range(16) if (instance := varied(seed, CHIPS)) is not None]
    assert len({len(instance.tables.capacity_bytes) for instance in found}) > 1
    hand = by_hand(FEATURE_NAMES, 2)[None].astype(np.float64)
    for instance in found:
        assert instance.regret(hand)[0] > -0.05  # no rule is much better than the best known
        assert instance.family == (instance.families[0] if len(instance.families) == 1 else "")
