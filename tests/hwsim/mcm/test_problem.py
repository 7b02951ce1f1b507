"""Partitioning as a problem: solver on and off, the device's refusals, what users can get wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mcm_instances import MIB, instance, package

from hwsim.capabilities import HasModel, explainer
from hwsim.explanation import Partition
from hwsim.mappings import sample_uniformly
from hwsim.mcm.config import McmConfig
from hwsim.mcm.package import Package, load_package
from hwsim.mcm.problem import McmProblem
from hwsim.mcm.solver.solver import BUDGET
from hwsim.problem import Status
from workloads.errors import InputError
from workloads.importers.placement_json import to_json
from workloads.load import load
from workloads.load_partition import load_partition

CHAIN = instance([2.0, 3.0, 4.0, 1.0], [(0, 1), (1, 2), (2, 3)], [1.0, 1.0, 1.0, 0.0])


def keys(rows: int) -> np.ndarray:
    return np.arange(rows, dtype=np.uint64)


def column(*place: int) -> np.ndarray:
    return np.array(place, np.int16)[None, :, None]


def test_with_the_solver_an_invalid_partition_runs_repaired_and_epsilon_is_what_moved():
    problem = McmProblem(CHAIN, package())
    found = problem.evaluate(column(0, 0, 2, 1), keys(1))
    assert found.status[0] == Status.OK
    assert problem.judge(found.repaired[0]) == []
    moved = (found.repaired[0, :, 0] != [0, 0, 2, 1]) * problem.tables.size_bytes
    assert found.epsilon[0] == moved.sum() / problem.tables.size_bytes.sum() > 0


def test_where_fix_finds_nothing_the_baseline_stands_in_and_epsilon_is_one(monkeypatch):
    problem = McmProblem(CHAIN, package())
    answer = problem.solver.fix(np.array([[0, 0, 2, 1]], np.int16), keys(1), None, 500)
    nothing = replace(answer, status=np.full_like(answer.status, BUDGET))
    assert not nothing.valid.any()
    monkeypatch.setattr(problem, "_repairer", replace(problem._repairer, solver=_Answers(nothing)))
    valid = column(0, 0, 1, 1)
    found = problem.evaluate(np.concatenate([column(0, 0, 2, 1), valid]), keys(2))
    np.testing.assert_array_equal(found.repaired[0], problem.baseline.mapping)
    np.testing.assert_array_equal(found.repaired[1], valid[0])
    assert found.epsilon.tolist() == [1.0, 0.0]


class _Answers:
    """A solver that always says the same."""

    def __init__(self, answer):
        self._answer = answer

    def fix(self, *given):
        return self._answer


def test_without_the_solver_it_does_not_run_and_costs_the_share_of_bytes_that_stand_wrong():
    problem = McmProblem(CHAIN, package(), McmConfig(solver=False))
    found = problem.evaluate(column(0, 0, 2, 1), keys(1))
    assert found.status[0] == Status.INVALID
    assert found.repaired[0, :, 0].tolist() == [0, 0, 2, 1]
    # chip 1 is used, so nothing is skipped: only n3 reads against the direction
    assert found.reward[0] == -problem.tables.size_bytes[3] / problem.tables.size_bytes.sum()
    drawn = problem.evaluate(sample_uniformly(problem, keys(50)), keys(50))
    assert 0 < (drawn.status == Status.OK).sum() < 25


def test_reward_is_the_squared_speedup_over_the_heuristic():
    problem = McmProblem(CHAIN, package())
    assert problem.baseline.mapping[:, 0].tolist() == [0, 1, 2, 2]
    assert problem.baseline.cost == 5.0
    found = problem.evaluate(column(0, 0, 1, 1), keys(1))
    assert (found.cost[0], found.reward[0]) == (5.0, 1.0)


def test_what_lacks_memory_on_the_device_does_not_run_and_the_judge_says_where():
    problem = McmProblem(CHAIN, package(sram_bytes=6 * MIB), McmConfig(model="device"))
    # 4 MiB of weights on one chip, beside two tensors of 1 MiB: fits; three on chip 1 with an input of two: does not
    found = problem.evaluate(np.concatenate([column(0, 0, 0, 0), column(0, 1, 1, 1)]), keys(2))
    assert found.status.tolist() == [Status.OK, Status.INVALID]
    assert found.reward[1] == -found.epsilon[1] < 0
    assert [v.where for v in problem.judge(found.repaired[1])] == ["chip 1"]
    assert problem.judge(found.repaired[0]) == []
    assert problem.model_cost(found.repaired[1]) == np.inf


def test_the_partition_names_the_slowest_chip_or_link():
    problem = McmProblem(instance([1.0, 1.0], [(0, 1)], [9.0, 0.0]), package())
    assert explainer(problem, Partition)
    shown = problem.explain(column(0, 1)[0])
    assert (shown.bottleneck, shown.cost_s) == ("link 0 -> 1", 9.0)
    assert shown.chips[0].link_bytes == 9 * MIB
    assert problem.explain(column(0, 0)[0]).bottleneck == "chip 0"


def test_links_have_no_times_beside_chips_whose_times_hold_the_transfers():
    network = instance([1.0, 2.0], [(0, 1)], [9.0, 0.0])
    shown = McmProblem(network, package("compute+transfers")).explain(column(0, 1)[0])
    assert (shown.bottleneck, shown.cost_s) == ("chip 1", 11.0)
    assert {chip.link_s for chip in shown.chips} == {0.0}
    assert shown.chips[0].link_bytes == 9 * MIB


def test_one_chip_takes_everything():
    problem = McmProblem(CHAIN, package(chips=1))
    assert problem.baseline.cost == 10.0
    assert isinstance(problem, HasModel)
    assert problem.solve(600.0, 0).bound.cost == pytest.approx(10.0)


def test_choices_are_stages_only_where_data_flows_forward():
    staged = McmProblem(CHAIN, package())
    assert staged.space.pipeline is not None
    assert McmProblem(CHAIN, package(acyclic=False, triangle=False)).space.pipeline is None


def test_copies_of_a_mask_stand_before_their_readers():
    net = McmProblem(load("bert:layers=3"), load_package("mcm36")).network
    assert (net.tables.edges[:, 0] < net.tables.edges[:, 1]).all()
    assert net.copy.any()
    for u, v in net.tables.edges.tolist():
        assert not net.copy[u] or v - u < 5


def _with(package: Package, chips: int) -> McmProblem:
    return McmProblem(CHAIN, package, McmConfig(chips=chips))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: _with(package(), 10_000), r"problem\.chips: expected 0 .* to \d+, found 10000"),
        (
            lambda: McmProblem(CHAIN, package(sram_bytes=MIB // 2)),
            r"small on small: no partition: memory at node n0: demanded 1048576 bytes, available 524288 bytes; what"
            r" would help: sram_bytes of \d+",
        ),
        (
            lambda: McmProblem(CHAIN, package(sram_bytes=MIB)),
            r"memory at all 3 chips: demanded 4194304 bytes, available 3145728 bytes",
        ),
        (
            lambda: McmProblem(CHAIN, package(), McmConfig(model="guess")),  # type: ignore[arg-type]
            r"problem\.model: expected analytical or device, found 'guess'",
        ),
    ],
)
def test_what_cannot_be_is_said_in_one_line(build, message):
    with pytest.raises(InputError, match=message) as caught:
        build()
    assert "\n" not in str(caught.value)


def test_an_instance_comes_back_from_its_own_json(tmp_path: Path):
    first = McmProblem(CHAIN, package())
    file = tmp_path / "workload.json"
    file.write_text(first.files()["workload.json"])
    again = McmProblem(load_partition(str(file)), package())
    assert again.fingerprint() == first.fingerprint()
    assert to_json(CHAIN) == first.files()["workload.json"]


def test_a_workload_file_is_no_instance_and_gzip_without_one_is_refused(tmp_path: Path):
    import gzip

    from workloads.serialize import to_json as workload_json

    text = workload_json(load("alexnet"))
    (tmp_path / "a.json").write_text(text)
    assert load_partition(str(tmp_path / "a.json")) == load("alexnet")
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(text.encode()))
    with pytest.raises(InputError, match=r"a\.json\.gz: expected a placement instance"):
        load_partition(str(tmp_path / "a.json.gz"))


def test_the_links_of_a_package_are_what_limits_a_wide_tensor():
    slow = replace(package(), link=replace(package().link, bandwidth_Bps=MIB / 10))
    narrow, wide = instance([5.0, 5.0], [(0, 1)], [0.1, 0.0]), instance([5.0, 5.0], [(0, 1)], [1.0, 0.0])
    costs = [McmProblem(given, slow).evaluate(column(0, 1), keys(1)).cost[0] for given in (narrow, wide)]
    assert costs == [5.0, 5.0], "measured times stand, whatever the package's links"
