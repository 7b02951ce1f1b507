"""Training as a problem: limits, the baseline, repair, explanations, what is kept, and what is refused."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from egrl_training.simulator.baseline import ShortageError
from egrl_training.simulator.device import Device, device_file, device_names, load_device
from egrl_training.simulator.problem import TrainingConfig, TrainingProblem
from egrl_training.simulator.repair import filled, fitted, relieved
from egrl_training.simulator.rules import plans_by_rule
from egrl_training.simulator.search import annealed
from egrl_training.simulator.simulate import canonical, simulate
from egrl_training.simulator.tables import build_tables
from egrl_training.steps import step_names
from egrl_training.steps.load import load_training
from gate import gate
from hwsim.problem import Status
from make_training import decoder, random_step, unet
from workloads.errors import InputError
from workloads.text import size_text

KEYS = np.zeros(1, np.uint64)


def drawn(of: TrainingProblem, count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2, (count, *of.space.shape)).astype(np.int16)


def test_the_limit_is_the_settings_else_the_devices():
    step, eight = unet(1), load_device("gpu-8gib")
    peak = TrainingProblem(step, eight).keep_all[1]
    assert TrainingProblem(step, eight).limit_bytes == 2**33
    assert TrainingProblem(step, eight, TrainingConfig(fraction=0.9)).limit_bytes == int(0.9 * peak)
    assert TrainingProblem(step, eight, TrainingConfig(limit_bytes=peak)).limit_bytes == peak
    reserved = TrainingProblem(step, None, TrainingConfig(fraction=0.9, reserved_bytes=peak))
    assert reserved.keep_all[1] == 2 * peak
    assert reserved.limit_bytes == int(0.9 * 2 * peak)


@pytest.mark.parametrize("name", device_names())
def test_each_device_is_called_like_its_file_and_read_back_from_its_text(name, tmp_path):
    device = load_device(name)
    assert device.name == name
    (tmp_path / "d.toml").write_text(device_file(device))
    assert load_device(tmp_path / "d.toml") == device


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("memory_bytes = 1\nmemory_fraction = 0.5", "expected one of them above 0, found 1 and 0.5"),
        ("", "expected one of them above 0, found 0 and 0"),
        ("memory_fraction = 1.5", "memory_fraction: expected"),
        ("memory_bytes = 1\nmore = 2", "more: expected no such key but name, memory_bytes"),
        (
            "memory_bytes = 1\nto_host_Bps = 1e9",
            "to_host_Bps, from_host_Bps: expected both 0 or both at least 1, found",
        ),
        (
            "memory_bytes = 1\nto_host_Bps = 0.5\nfrom_host_Bps = 9.0",
            "expected both 0 or both at least 1, found 0.5 and 9",
        ),
        ('memory_bytes = 1\n[again]\n"aten.mm" = -1.0', "again.aten.mm: expected"),
    ],
)
def test_what_is_wrong_with_a_device_file_is_said_in_one_line(tmp_path: Path, text, said):
    file = tmp_path / "d.toml"
    file.write_text(f'kind = "training-device"\nversion = 1\nname = "d"\n{text}\n')
    with pytest.raises(InputError, match=said) as caught:
        load_device(file)
    assert "\n" not in str(caught.value)


def test_two_limits_and_a_step_without_decisions_are_refused():
    with pytest.raises(InputError, match=r"problem\.limit_bytes, problem\.fraction: expected one of them"):
        TrainingProblem(unet(1), None, TrainingConfig(limit_bytes=1, fraction=0.5))
    step = unet(1)
    fixed = replace(step, ops=tuple(replace(op, recomputable=False) for op in step.ops))
    with pytest.raises(InputError, match="expected a value that may be kept or computed again, found none"):
        TrainingProblem(fixed)


@pytest.mark.slow
def test_a_limit_that_nothing_fits_is_refused_with_the_least_peak_where_it_is_and_the_proof():
    with pytest.raises(InputError) as caught:
        TrainingProblem(unet(1), None, TrainingConfig(limit_bytes=1000))
    said = str(caught.value)
    assert said.startswith("made-unet-1: expected a limit of at least ")
    assert "the least peak found (in the backward pass at " in said
    assert said.endswith(
        "found 1000 bytes, within which no plan fits in which an op runs at most once per pass, by proof"
    )
    assert "\n" not in said


@pytest.mark.slow
@pytest.mark.parametrize(
    "step", gate([unet(1), unet(8), decoder(2)], [decoder(2)]), ids=lambda step: step.name
)
def test_a_plan_is_found_within_the_limit_that_a_refusal_names_and_above(step):
    with pytest.raises(ShortageError) as caught:
        TrainingProblem(step, None, TrainingConfig(limit_bytes=1000))
    for more in (0, 1 << 10, 1 << 16):
        limit = caught.value.least_bytes + more
        fits = TrainingProblem(step, None, TrainingConfig(limit_bytes=limit))
        assert fits.judge(fits.baseline.mapping) == []


def test_a_search_finds_a_plan_where_no_rule_fits():
    problem = TrainingProblem(unet(2), None, TrainingConfig(fraction=0.4))
    assert problem.baseline.name == "searched"
    assert problem.judge(problem.baseline.mapping) == []


def test_a_limit_of_the_settings_is_named_beside_the_device_or_in_its_place():
    limited = TrainingProblem(unet(2), None, TrainingConfig(fraction=0.9))
    assert limited.about.chip == f"a device with {size_text(limited.limit_bytes)}"
    device = load_device("gpu-8gib")
    assert TrainingProblem(unet(2), device).about.chip == "gpu-8gib"
    assert (
        TrainingProblem(unet(2), device, TrainingConfig(limit_bytes=2**32)).about.chip
        == "gpu-8gib with 4 GiB"
    )


@pytest.mark.parametrize("step", [unet(2), decoder(2)], ids=["unet", "decoder"])
def test_the_baseline_is_the_quickest_rule_that_fits(step):
    problem = TrainingProblem(step, None, TrainingConfig(fraction=0.9))
    rules = plans_by_rule(step, problem.tables)
    seconds, peak = simulate(problem.tables, np.stack(list(rules.values())))
    assert {name.split(",")[0] for name in rules} == {
        "keep all",
        "knapsack",
        "products",
        "checkpoints",
        "recompute all",
    }
    assert problem.baseline.cost == seconds[peak <= problem.limit_bytes].min()
    assert problem.baseline.name in rules


@pytest.mark.parametrize("name", step_names())
def test_shipped_steps_fit_the_default_device(name):
    problem = TrainingProblem(load_training(name))
    assert problem.about.chip == "half"
    assert problem.judge(problem.baseline.mapping) == []


def test_repair_fits_leaves_what_fits_alone_and_falls_back_on_a_plan_that_does():
    for step, fraction in ((unet(2), 0.5), (decoder(2), 0.75), (random_step(6, 40), 0.9)):
        problem = TrainingProblem(step, None, TrainingConfig(fraction=fraction))
        fits = np.ascontiguousarray(problem.baseline.mapping[:, 0])
        plans = drawn(problem, 40)[:, :, 0].copy()
        plans[:2] = [[0], [1]]
        before = simulate(problem.tables, plans)[1]
        found, changed = fitted(problem.tables, plans, problem.limit_bytes, fits)
        assert (simulate(problem.tables, found)[1] <= problem.limit_bytes).all()
        np.testing.assert_array_equal(changed, before > problem.limit_bytes)
        np.testing.assert_array_equal(found[~changed], plans[~changed])
        assert changed.any()


def test_relieving_only_gives_up_and_filling_only_keeps():
    problem = TrainingProblem(unet(2), None, TrainingConfig(fraction=0.6))
    everything = np.ones(problem.space.shape[0], np.int16)
    fit, fits = relieved(problem.tables, everything, problem.limit_bytes)
    assert fits
    more = filled(problem.tables, fit, problem.limit_bytes, 1000)
    assert (fit <= everything).all()
    assert (fit <= more).all()
    seconds, peak = simulate(problem.tables, np.stack([fit, more]))
    assert (peak <= problem.limit_bytes).all()
    assert seconds[1] < seconds[0]


def test_annealing_is_keyed_never_worse_and_finds_the_best_of_a_small_step():
    step = random_step(12, 12)
    tables = build_tables(step, 0)
    plans = np.array(list(itertools.product((0, 1), repeat=len(step.candidates))), np.int16)
    seconds, peak = simulate(tables, plans)
    limit = int(np.quantile(peak, 0.3))
    start = plans[int(peak.argmin())]
    found = annealed(tables, start, limit, 1, 3000, 0.05)
    np.testing.assert_array_equal(found, annealed(tables, start, limit, 1, 3000, 0.05))
    took, needs = simulate(tables, found[None])
    assert needs[0] <= limit
    assert took[0] == seconds[peak <= limit].min()


def test_penalised_plans_do_not_run_and_say_by_how_much_they_are_too_large():
    config = TrainingConfig(fraction=0.6, invalid="penalise")
    problem = TrainingProblem(unet(2), None, config)
    everything = np.ones((1, *problem.space.shape), np.int16)
    found = problem.evaluate(everything, KEYS)
    assert found.status[0] == Status.INVALID
    assert found.reward[0] == -found.epsilon[0] == pytest.approx(-0.4, abs=1e-6)
    assert problem.judge(everything[0])


def test_the_judge_names_the_worst_moment_of_each_stretch_and_choices_that_are_none():
    problem = TrainingProblem(unet(2), None, TrainingConfig(fraction=0.6))
    everything = np.ones(problem.space.shape, np.int16)
    found = problem.judge(everything)
    assert max(each.demanded for each in found) == problem.keep_all[1]
    assert all(each.available == problem.limit_bytes for each in found)
    assert "backward pass (largest: " in str(found[0])
    everything[0] = 2
    assert [each.what for each in problem.judge(everything)] == ["no such choice"]


def test_the_parts_of_a_cost_are_the_passes_and_the_holders_are_in_memory():
    problem = TrainingProblem(unet(2), None, TrainingConfig(fraction=0.6))
    found = problem.explain(problem.baseline.mapping)
    assert list(found.parts) == ["forward", "backward", "computed again"]
    once = sum(op.seconds for op in problem.step.ops)
    assert found.parts["forward"] + found.parts["backward"] == pytest.approx(once)
    assert found.parts["computed again"] == pytest.approx(problem.baseline.cost - once)
    assert found.peak == problem.peak_bytes(problem.baseline.mapping[None])[0]
    trace = problem.trace(problem.baseline.mapping)
    assert trace.held_bytes[found.peak_time] == found.peak
    assert all(holder.start <= found.peak_time < holder.end for holder in found.holders)
    again = {problem.step.ops[op].name for op in trace.op[trace.again]}
    assert {payer.node.partition(".")[0] for payer in found.payers} <= again


def test_what_is_saved_is_what_is_kept_and_needed():
    problem = TrainingProblem(decoder(1), None, TrainingConfig(fraction=0.9))
    mapping = problem.baseline.mapping
    saved = set(problem.saved(mapping))
    kept = {number for number, choice in zip(problem.step.candidates, mapping[:, 0], strict=True) if choice}
    assert kept <= saved
    once = {n for op in problem.step.ops if not op.recomputable for n in op.outputs}
    assert saved - kept <= once
    assert saved & once


def test_occupancy_is_the_trace_against_the_limit():
    problem = TrainingProblem(unet(2), None, TrainingConfig(fraction=0.6))
    found = problem.occupancy(problem.baseline.mapping)
    assert found.capacity_bytes.tolist() == [problem.limit_bytes]
    np.testing.assert_array_equal(
        found.occupied_bytes[:, 0], problem.trace(problem.baseline.mapping).held_bytes
    )


def test_sections_say_what_a_plan_saves_and_what_runs_again():
    problem = TrainingProblem(unet(2), None, TrainingConfig(fraction=0.6))
    mapping = problem.repair(drawn(problem, 1), KEYS)[0]
    step, memory, again = problem.sections(mapping)
    seconds, peak = problem.keep_all
    every, rule, best = step.rows
    assert every[:4] == ["every value kept", pytest.approx(seconds), peak, 0]
    assert rule[1] == pytest.approx(problem.baseline.cost)
    assert best[1] == pytest.approx(problem.evaluate(mapping[None], KEYS).cost[0])
    assert best[2] == problem.peak_bytes(mapping[None])[0] == max(memory.lines[-1].y)
    assert [line.label for line in memory.lines] == [row[0] for row in step.rows]
    assert memory.lines[0].x[-1] < seconds
    assert len(again.rows) == best[3] > 0
    assert sum(row[3] for row in again.rows) == pytest.approx(best[4])
    assert best[4] == pytest.approx(problem.explain(mapping).parts["computed again"])
    ops = {op.name: op for op in problem.step.ops}
    assert all(row[2] == ops[row[0]].kind and ops[row[0]].recomputable for row in again.rows)


HOST = Device("host", memory_fraction=0.6, to_host_Bps=2e10, from_host_Bps=3e10)


def test_without_rates_there_are_two_choices_and_a_problem_is_what_it_was_before_there_was_a_host():
    problem = TrainingProblem(unet(2), None, TrainingConfig(fraction=0.9))
    assert (problem.space.num_choices == 2).all()
    assert problem.space.labels == (("recompute", "keep"),)
    assert problem.fingerprint() == "39b3bd19b31b60dd00d12be37fbda0c257803878c4a66b96f2c290dce371a748"
    assert problem.observation.schema == 401
    assert problem.observation.x.shape[1] == 16


def test_with_rates_what_is_large_and_no_result_of_the_step_may_go_to_the_host():
    problem = TrainingProblem(unet(2), HOST)
    assert problem.space.labels == (("recompute", "keep", "offload"),)
    assert problem.observation.schema == 451
    assert problem.observation.x.shape[1] == 18
    least = 1e-5 * 3e10  # the direction that is faster
    for number, (choices,) in zip(problem.step.candidates, problem.space.num_choices, strict=True):
        small = problem.step.values[number].size_bytes < least
        assert choices == (2 if small or number in problem.step.outputs else 3)
    assert set(problem.space.num_choices[:, 0]) == {2, 3}
    rates = replace(HOST, to_host_Bps=3e10)
    assert TrainingProblem(unet(2), rates).fingerprint() != problem.fingerprint()
    slow = TrainingProblem(unet(2), replace(HOST, to_host_Bps=1e18, from_host_Bps=1e18))
    assert (slow.space.num_choices == 2).all()  # nothing is large enough
    small = int(np.flatnonzero(problem.space.num_choices[:, 0] == 2)[0])
    mapping = np.ones(problem.space.shape, np.int16)
    mapping[small] = 2
    assert [each.what for each in problem.judge(mapping)] == ["no such choice"]


def test_what_is_on_the_host_is_explained_and_shown():
    problem = TrainingProblem(unet(2), HOST)
    mapping = (problem.space.num_choices - 1).astype(np.int16)
    found = problem.trace(mapping)
    assert found.wait_s.sum() > 0
    once = sum(op.seconds for op in problem.step.ops)
    told = simulate(problem.tables, np.ascontiguousarray(mapping[:, 0])[None])
    assert told[0][0] == pytest.approx(once + found.wait_s.sum())
    step, memory, _, host = problem.sections(mapping)
    assert host.title == "On the host"
    needed = canonical(problem.tables, np.ascontiguousarray(mapping[:, 0])[None])
    assert len(host.rows) == int((needed == 2).sum()) > 0
    assert step.rows[2][1] == pytest.approx(told[0][0])
    assert memory.lines[-1].x[-1] < told[0][0]
    for _, size, copies, leaves, returns in host.rows:
        assert copies == pytest.approx(size / 2e10 + size / 3e10)
        assert 0 < leaves <= returns < told[0][0]
    run = problem.repair(mapping[None], KEYS)[0]
    parts = problem.explain(run)
    assert parts.parts["waiting for the host"] == pytest.approx(problem.trace(run).wait_s.sum())
    assert parts.cost == pytest.approx(problem.evaluate(mapping[None], KEYS).cost[0])
    for holder in parts.holders:
        assert holder.start <= parts.peak_time < holder.end
    assert len(problem.sections(mapping)) == 4


def test_repair_uses_the_host_for_what_is_dear_to_compute_again():
    """Where copies are quick they are cheaper than any op; where they are slow, nothing is copied."""
    for rate, used in ((1e12, True), (1e7, False)):
        problem = TrainingProblem(
            unet(2), replace(HOST, to_host_Bps=rate, from_host_Bps=rate, memory_fraction=0.7)
        )
        everything = np.ones(problem.space.shape, np.int16)
        run = problem.repair(everything[None], KEYS)[0]
        assert problem.judge(run) == []
        away = int(problem.space.size_bytes[run == 2].sum())
        assert (away > 0.1 * problem.space.size_bytes.sum()) if used else away < 1e7 * problem.keep_all[0]
        without = TrainingProblem(unet(2), None, TrainingConfig(fraction=0.7))
        cost = float(without.evaluate(everything[None], KEYS).cost[0])
        assert problem.model_cost(everything) <= cost * (0.97 if used else 1.0)


def test_annealing_and_filling_find_the_best_of_a_small_step_with_a_host():
    step = random_step(12, 12)
    tables = build_tables(step, 0, None, None, (4e5, 4e5))
    most = 2 + (tables.to_host_s[tables.decision >= 0] > 0)
    plans = np.array(list(itertools.product(*(range(n) for n in most))), np.int16)
    seconds, peak = simulate(tables, plans)
    limit = int(np.quantile(peak, 0.2))
    best = int(np.where(peak <= limit, seconds, np.inf).argmin())
    found = annealed(tables, plans[int(peak.argmin())], limit, 1, 5000, 0.05)
    took, needs = simulate(tables, found[None])
    assert needs[0] <= limit
    assert took[0] == seconds[best]
    assert (found < most).all()
    assert (plans[best] == 2).any()


def test_files_build_the_same_problem_again(tmp_path):
    device = Device("mine", memory_fraction=0.6, again={"aten.relu": 0.5})
    problem = TrainingProblem(unet(2), device)
    for name, content in problem.files().items():
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    again = TrainingProblem(
        load_training(str(tmp_path / "workload.json.gz")), load_device(tmp_path / "chip.toml")
    )
    assert again.fingerprint() == problem.fingerprint()
    assert TrainingProblem(unet(2), replace(device, again={})).fingerprint() != problem.fingerprint()
