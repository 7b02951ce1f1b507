"""The simulator does what the judge's plain play of the step does, run by run."""

from __future__ import annotations

import numpy as np
import pytest

from egrl_training.simulator.device import LEAST_COPY_S
from egrl_training.simulator.judge import Host, play
from egrl_training.simulator.simulate import KEEP, OFFLOAD, RECOMPUTE, canonical, runs_of, simulate, trace
from egrl_training.simulator.tables import build_tables
from egrl_training.steps.step import Op, TrainingStep, Value
from make_training import decoder, random_step, unet

RESERVED = 7


def agrees(step: TrainingStep, plans: np.ndarray, host_Bps: tuple[float, float] = (0.0, 0.0)) -> None:
    """Runs, their memory, seconds and peak are those of the judge."""
    factors, again = {"aten.f": 1.5}, {"aten.f": 0.25, "aten.mm": 2.0}
    tables = build_tables(step, RESERVED, factors, again, host_Bps, LEAST_COPY_S)
    host = Host(*host_Bps, LEAST_COPY_S, factors, again) if min(host_Bps) > 0 else None
    took, peak = simulate(tables, plans)
    for plan, its_seconds, its_peak in zip(plans, took, peak, strict=True):
        kept = {value for value, choice in zip(step.candidates, plan, strict=True) if choice != RECOMPUTE}
        away = {value for value, choice in zip(step.candidates, plan, strict=True) if choice == OFFLOAD}
        moments, found = play(step, kept, away, host), trace(tables, plan)
        assert [step.ops[op].name for op in found.op] == [moment.op for moment in moments]
        assert found.turn == sum(moment.turn == "forward" for moment in moments)
        held = [moment.total_bytes + RESERVED for moment in moments]
        assert found.held_bytes.tolist() == held
        assert its_peak == max(held)
        without = seconds(step, [moment.op for moment in moments])
        assert its_seconds == pytest.approx(moments[-1].end_s if host else without, rel=1e-12)
        assert its_seconds - found.wait_s.sum() == pytest.approx(without, rel=1e-12)


def seconds(step: TrainingStep, runs: list[str]) -> float:
    """What the ops take together, those that run a second time with the factors above."""
    ops = {op.name: op for op in step.ops}
    total = 0.0
    for at, name in enumerate(runs):
        kind = ops[name].kind
        again = {"aten.f": 0.25, "aten.mm": 2.0}.get(kind, 1.0) if name in runs[:at] else 1.0
        total += ops[name].seconds * (1.5 if kind == "aten.f" else 1.0) * again
    return total


def test_it_plays_random_steps_as_the_judge_does():
    rng = np.random.default_rng(0)
    for seed in range(120):
        step = random_step(seed, 4 + seed % 9)
        agrees(step, rng.integers(0, 2, (3, len(step.candidates))).astype(np.int16))


@pytest.mark.parametrize("step", [decoder(1), unet(2)], ids=["decoder", "unet"])
def test_it_plays_networks_as_the_judge_does(step):
    drawn = np.random.default_rng(1).random((4, len(step.candidates))) < np.array([[0], [0.3], [0.7], [1]])
    agrees(step, drawn.astype(np.int16))


def choices(step: TrainingStep, host_Bps: tuple[float, float]) -> np.ndarray:
    """int64 [N]: how many choices each decision has."""
    tables = build_tables(step, 0, None, None, host_Bps)
    return 2 + (tables.to_host_s[tables.decision >= 0] > 0)


@pytest.mark.slow
@pytest.mark.parametrize("host_Bps", [(3e5, 3e5), (2e6, 1e6), (4e5, 8e6)])
def test_it_copies_to_the_host_and_back_as_the_judge_does(host_Bps):
    rng = np.random.default_rng(3)
    for seed in range(120):
        step = random_step(seed, 4 + seed % 12)
        most = choices(step, host_Bps)
        agrees(step, rng.integers(0, most, (4, len(most))).astype(np.int16), host_Bps)


@pytest.mark.parametrize("step", [decoder(1), unet(2)], ids=["decoder", "unet"])
@pytest.mark.parametrize("host_Bps", [(2e10, 3e10), (4e11, 2e11)])
def test_it_copies_what_networks_make_as_the_judge_does(step, host_Bps):
    most = choices(step, host_Bps)
    rng = np.random.default_rng(4)
    plans = rng.integers(0, most, (3, len(most))).astype(np.int16)
    agrees(step, np.concatenate([plans, most[None].astype(np.int16) - 1]), host_Bps)


def test_without_a_host_nothing_changes_and_with_one_plans_of_two_choices_are_worth_the_same():
    rng = np.random.default_rng(5)
    for seed in range(40):
        step = random_step(seed, 10)
        plans = rng.integers(0, 2, (4, len(step.candidates))).astype(np.int16)
        without, beside = build_tables(step, 3), build_tables(step, 3, None, None, (1e6, 1e6))
        np.testing.assert_array_equal(simulate(without, plans), simulate(beside, plans))


def test_a_plan_is_worth_the_same_in_its_canonical_form():
    rng = np.random.default_rng(2)
    fewer = 0
    for seed in range(60):
        step = random_step(seed, 10)
        tables = build_tables(step, 0)
        plans = rng.integers(0, 2, (4, len(step.candidates))).astype(np.int16)
        found = canonical(tables, plans)
        fewer += int((found < plans).sum())
        assert (found <= plans).all()
        np.testing.assert_array_equal(simulate(tables, plans), simulate(tables, found))
        np.testing.assert_array_equal(canonical(tables, found), found)
    assert fewer > 0


def chain(*, layers: int = 3) -> TrainingStep:
    """x -> h0 -> h1 … each of 10 bytes and a second; the backward op of a layer reads what the layer read."""
    values = [Value("x", 1, role="input"), Value("dy", 10, role="tangent")]
    ops = []
    last = 0
    for n in range(layers):
        values.append(Value(f"h{n}", 10))
        ops.append(Op(f"f{n}", "aten.f", "forward", (last,), (len(values) - 1,), 1.0))
        last = len(values) - 1
    output, gradient = last, 1
    for n in reversed(range(layers)):
        values.append(Value(f"d{n}", 10))
        read = 0 if n == 0 else 2 + n - 1
        ops.append(Op(f"b{n}", "aten.b", "backward", (gradient, read), (len(values) - 1,), 2.0))
        gradient = len(values) - 1
    return TrainingStep("chain", tuple(values), tuple(ops), (output,), (gradient,))


def test_a_chain_by_hand():
    """Keeping both inner values: f0 f1 f2 b2 b1 b0. Keeping none: b2 needs h1, and so h0, which b1 reads later."""
    tables = build_tables(chain(), 0)
    kept = trace(tables, np.array([KEEP, KEEP], np.int16))
    assert kept.held_bytes.tolist() == [11, 21, 31, 51, 41, 31]
    again = trace(tables, np.array([RECOMPUTE, RECOMPUTE], np.int16))
    assert tables.op[again.op].tolist() == [0, 1, 2, 0, 1, 3, 4, 5]
    assert again.again.tolist() == [False] * 3 + [True] * 2 + [False] * 3
    # Forward: h0; h0 h1; h1 h2. Backward, with x, the output h2 and the tangent all the time: h0; h0 h1; …
    assert again.held_bytes.tolist() == [11, 21, 21, 31, 41, 51, 41, 31]


def test_a_chain_on_the_host_by_hand():
    """A copy takes two seconds, three to come back; f takes one and b two.

    h0 is read last by f1, which ends at 2: its copy ends at 4, when f4 begins. That of h1 ends at 6, and the pass,
    which ends at 5, waits for it. b4 to b0 begin at 0, 2, 4, 6, 8. h1 is read by b2 at 4, so that its copy should begin
    at 1: b4 issues it. h0 is read by b1 at 6: its copy should begin at 3, and b3 issues it. It begins when that of h1
    has ended, at 3, and ends at 6. Nobody waits.
    """
    tables = build_tables(chain(layers=5), 0, None, None, (5.0, 10 / 3))
    found = trace(tables, np.array([OFFLOAD, OFFLOAD, KEEP, KEEP], np.int16))
    h0, h1 = (int(np.flatnonzero(tables.decision == d)[0]) for d in (0, 1))
    assert found.leaves[[h0, h1]].tolist() == [4, 5]
    assert found.returns[[h0, h1]].tolist() == [6, 5]
    assert found.wait_s.tolist() == [0, 0, 0, 0, 0, 1, 0, 0, 0, 0]
    # h0 is gone as f4 makes h4. While b4 runs: x, h1, h2, h3, h4, tangent, d4; h0 returns before b3.
    assert found.held_bytes.tolist() == [11, 21, 31, 41, 41, 61, 61, 51, 41, 31]


def test_whoever_reads_what_is_still_on_its_way_waits():
    """Copies back take five seconds: of h3, h2, h1, h0 none can be planned after b4 begins, and each reader waits."""
    tables = build_tables(chain(layers=5), 0, None, None, (10.0, 2.0))
    found = trace(tables, np.full(4, OFFLOAD, np.int16))
    assert found.returns[np.flatnonzero(tables.decision >= 0)].tolist() == [5] * 4
    # The copy of h3 ends one second after the pass. Then h3 is there at 5, b4 ends at 7; h2 is there at 10 …
    assert found.wait_s[5:].tolist() == [6, 3, 3, 3, 0]


def test_an_op_runs_at_most_once_per_pass_and_the_backward_pass_first_restores_what_it_reads():
    for seed in range(40):
        step = random_step(seed, 10)
        tables = build_tables(step, 0)
        plan = np.random.default_rng(seed).integers(0, 2, len(step.candidates)).astype(np.int16)
        runs = runs_of(tables, plan)
        early, late = runs.op[: runs.turn], runs.op[runs.turn : runs.length]
        assert len(set(early)) == len(early)
        assert len(set(late)) == len(late)
        there = set(np.flatnonzero(runs.saved)) | set(tables.tangents)
        for k in late:
            assert set(tables.inputs[tables.input_first[k] : tables.input_first[k + 1]]) <= there
            there |= set(tables.outputs[tables.output_first[k] : tables.output_first[k + 1]])
        assert set(tables.gradients) <= there


def test_what_must_not_run_twice_runs_once():
    for seed in range(60):
        step = random_step(seed, 10)
        tables = build_tables(step, 0)
        order = runs_of(tables, np.full(len(step.candidates), RECOMPUTE, np.int16))
        names = [step.ops[op] for op in tables.op[order.op[: order.length]]]
        once = [op.name for op in names if not op.recomputable]
        assert len(once) == len(set(once))
