"""Plans for ExecuTorch: they run, nothing live is overwritten, capacities hold. Skipped without the extra."""

from __future__ import annotations

import importlib.util
import json
import os
import pickle
import zipfile
from pathlib import Path

import pytest
from commands import refuse

from egrl.cli.main import main
from egrl_edge.executorch import planner
from workloads.errors import InputError

INSTALLED = importlib.util.find_spec("executorch") is not None
needs_executorch = pytest.mark.skipif(not INSTALLED, reason="needs pip install executorch")
NET = Path(__file__).parent / "profiles" / "net.pt2"
FAST, SLOW = 2048, 8192
pytestmark = pytest.mark.filterwarnings("ignore")  # torch and ExecuTorch warn of themselves


@pytest.mark.skipif(INSTALLED, reason="executorch is installed")
def test_without_the_extra_one_line_says_what_to_install(tmp_path, capsys):
    with pytest.raises(InputError, match=r'pip install "executorch>=1.5,<1.6"'):
        planner("edge")
    argv = ["executorch", str(NET), "--trust", "-o", str(tmp_path / "program.json")]
    refuse(capsys, argv, 'pip install "executorch')


class _Hostile:
    """What makes a folder when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self._marker),)


def test_code_in_a_file_runs_only_for_who_trusts_it(tmp_path, capsys):
    import torch

    marker, model, output = (tmp_path / name for name in ("marker", "hostile.pt2", "out.json"))
    with zipfile.ZipFile(NET) as source, zipfile.ZipFile(model, "w") as made:
        for name in source.namelist():
            inputs = "/sample_inputs/" in name
            made.writestr(name, pickle.dumps(_Hostile(marker)) if inputs else source.read(name))
    argv = ["executorch", str(model), "-o", str(output)]
    refuse(capsys, argv, "expected --trust, found none: PyTorch's loader runs code")
    refuse(capsys, ["executorch", "m.onnx", "-o", str(output)], "an exported program (.pt2)")
    assert not output.exists()
    assert main(["import", str(model), "-o", str(output)]) == 0
    assert main(["evaluate", "--workload", str(model), "--mapping", "compiler"]) == 0
    assert not marker.exists()
    with pytest.raises(RuntimeError, match="error when deserializing"):
        torch.export.load(model)
    assert marker.exists()  # so it is hostile


def _model():
    import torch
    from torch import nn

    class Small(nn.Module):
        """A convolution, a view, an op with three outputs, and a buffer that outlives a run."""

        def __init__(self):
            super().__init__()
            self.conv, self.line, self.norm = (
                nn.Conv2d(3, 4, 3, padding=1),
                nn.Linear(64, 10),
                nn.LayerNorm(10),
            )
            self.register_buffer("count", torch.zeros(10))

        def forward(self, x):
            y = torch.relu(self.conv(x))
            y = y + torch.sigmoid(y)
            z = self.norm(self.line(torch.nn.functional.avg_pool2d(y, 2).flatten(1)))
            self.count.add_(1.0)
            return z + 1

    torch.manual_seed(0)
    return Small().eval().requires_grad_(False), torch.randn(1, 3, 8, 8)


def _lowered(algorithm, model=None):
    """The planned program, its inputs and what eager PyTorch gives."""
    import torch
    from executorch.exir import ExecutorchBackendConfig, to_edge
    from executorch.exir.passes import MemoryPlanningPass

    module, x = model or _model()
    exported = torch.export.export(module, (x,))
    planning = MemoryPlanningPass(memory_planning_algo=algorithm)
    return (
        to_edge(exported).to_executorch(ExecutorchBackendConfig(memory_planning_pass=planning)),
        x,
        module(x),
    )


def _map(fast=FAST, slow=SLOW):
    from executorch.exir.banked_memory_planning import Bank, TargetMemoryMap

    return TargetMemoryMap([Bank("sram", fast, 1), Bank("dram", slow, 2)])


def _ran(program, x):
    from executorch.runtime import Runtime

    return Runtime.get().load_program(program.buffer).load_method("forward").execute((x,))[0]


def _judged(program, sizes):
    from executorch.exir.tensor import get_scalar_type, scalar_type_table

    from egrl_edge.executorch.judge import judge

    widths = {scalar: get_scalar_type(scalar).itemsize for scalar in scalar_type_table.values()}
    return judge(program.executorch_program.execution_plan[0], widths, sizes)


@needs_executorch
@pytest.mark.parametrize("constants", [False, True])
def test_a_plan_runs_and_nothing_live_is_overwritten(constants):
    import torch

    from egrl_edge.executorch.poisoned import Poisoned

    fast = 4 * FAST if constants else FAST
    algorithm = planner(_map(fast), "edge", seconds=600, constants=constants)
    program, x, expected = _lowered(algorithm)
    plan = algorithm.plans[-1]
    assert plan.violations() == []
    assert plan.cost.seconds <= plan.greedy.seconds
    assert _judged(program, {1: fast, 2: SLOW}) == []
    assert torch.allclose(_ran(program, x), expected, atol=1e-5)
    if not constants:  # a constant in a bank is loaded by the runtime, which the interpreter does not do
        poisoned = Poisoned(program.exported_program())
        assert torch.allclose(poisoned.outputs([x])[0], expected, atol=1e-5)
    assert any(row.name.startswith("p_") for row in plan.rows) == constants


@needs_executorch
def test_the_judge_sees_two_live_tensors_that_meet_and_a_bank_that_is_too_small():
    program, _, _ = _lowered(planner(_map(), "edge", seconds=600))
    assert any("larger than its bank" in v.what for v in _judged(program, {1: 16, 2: SLOW}))
    values = program.executorch_program.execution_plan[0].values
    planned = [v.val for v in values if getattr(v.val, "allocation_info", None) is not None]
    for tensor in planned:
        tensor.allocation_info.memory_id, tensor.allocation_info.memory_offset_low = 2, 0
    assert any("lost bytes" in v.what for v in _judged(program, {1: FAST, 2: SLOW}))


@needs_executorch
def test_a_capacity_one_byte_too_small_is_said_in_one_line():
    need = 2048  # two activations of 1 KiB live while relu, sigmoid and the sum run
    with pytest.raises(InputError) as caught:
        _lowered(planner(_map(fast=need // 2, slow=need - 1), "edge", seconds=600))
    said = str(caught.value)
    assert "\n" not in said
    assert "impossible, by proof" in said
    assert "dram 2047" in said


def _branches():
    import torch
    from torch import nn

    class Either(nn.Module):
        """Two branches that are both needed at the end."""

        def __init__(self):
            super().__init__()
            self.line = nn.Linear(4, 4)

        def forward(self, x):
            first = torch.cond(x.sum() > 0, lambda x: self.line(x).relu(), lambda x: (x * 2).tanh(), (x,))
            second = torch.cond(x.sum() > 1, lambda x: self.line(x).tanh(), lambda x: (x + 2).tanh(), (x,))
            return first + second

    return Either().eval().requires_grad_(False), torch.zeros(2, 4)


def _loop():
    import torch
    from torch import nn
    from torch._higher_order_ops import map as each_of

    class Rows(nn.Module):
        def forward(self, x):
            return each_of(lambda row: row.relu() + 1, x)

    return Rows(), torch.zeros(2, 4)


@needs_executorch
@pytest.mark.parametrize("model", [_branches, _loop])
def test_a_program_with_graphs_inside_is_refused_when_it_is_imported_and_when_it_is_planned(
    model, tmp_path, capsys
):
    import torch

    message = "expected a program without branches and loops (cond, while_loop, map), found "
    with pytest.raises(InputError) as caught:
        _lowered(planner(_map(), "edge", seconds=600), model())
    assert str(caught.value).startswith(message)
    module, x = model()
    file = str(tmp_path / "net.pt2")
    torch.export.save(torch.export.export(module, (x,)), file)
    refuse(capsys, ["executorch", file, "--trust", "-o", file + ".json"], message)


@needs_executorch
def test_pins_hold():
    from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite

    algorithm = planner(_map(), "edge", seconds=600)

    class Pinning(MemoryPlanningAlgorithmSuite):
        def __call__(self, alignment, specs, *rest):
            given = list(specs)
            largest = max(given, key=lambda spec: spec.nbytes())
            largest.mem_id = 2
            sizes = algorithm(alignment, given, *rest)
            assert largest.mem_id == 2
            return sizes

    program, x, expected = _lowered(Pinning())
    assert ((_ran(program, x) - expected).abs() < 1e-5).all()


@needs_executorch
def test_a_run_becomes_a_plan_that_is_applied(tmp_path):
    import torch

    from egrl_edge.executorch import apply_plan

    module, x = _model()
    torch.export.save(torch.export.export(module, (x,)), tmp_path / "small.pt2")
    program, chip, plan = tmp_path / "small.json", tmp_path / "chip.toml", tmp_path / "plan.json"
    argv = ["executorch", str(tmp_path / "small.pt2"), "--trust", "-o", str(program)]
    assert main(argv) == 0
    chip.write_text(_chip_text().replace("1048576", str(FAST)).replace("1073741824", str(SLOW)))
    run = tmp_path / "run"
    argv = ["run", "--problem", "banks", "--workload", str(program), "--chip", str(chip), "--out", str(run)]
    assert main(argv) == 0
    assert main(["export", str(run), "--to", "executorch", "-o", str(plan)]) == 0
    algorithm = apply_plan(str(plan), _map())
    lowered, x, expected = _lowered(algorithm)
    assert _judged(lowered, {1: FAST, 2: SLOW}) == []
    assert torch.allclose(_ran(lowered, x), expected, atol=1e-5)
    document = json.loads(plan.read_text())
    document["tensors"][0]["size_bytes"] += 16
    plan.write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"expected \d+ bytes in one of"):
        _lowered(apply_plan(str(plan), _map()))


def _chip_text():
    from hwsim.nnpi.chip import chip_file, load_chip

    return chip_file(load_chip("edge"))


def test_a_run_of_what_executorch_does_not_plan_is_no_plan_for_it(tmp_path, capsys):
    argv = [
        "run",
        "--problem",
        "banks",
        "--workload",
        "alexnet",
        "--method",
        "random",
        "--gens",
        "1",
        "--quiet",
    ]
    assert main([*argv, "--bound-seconds", "0", "--out", str(tmp_path / "r")]) == 0
    capsys.readouterr()
    argv = ["export", str(tmp_path / "r"), "--to", "executorch", "-o", str(tmp_path / "plan.json")]
    refuse(capsys, argv, "egrl executorch MODEL.pt2")
    assert not (tmp_path / "plan.json").exists()


@needs_executorch
def test_constants_in_banks_are_of_one_method_and_leave_no_bound():
    algorithm = planner(_map(4 * FAST), "edge", seconds=600, constants=True)
    _lowered(algorithm)
    assert algorithm.plans[-1].bound_s == 0.0
    with pytest.raises(InputError, match="found a second method"):
        _lowered(algorithm)


@needs_executorch
@pytest.mark.parametrize("name", ["unet", "decoder"])
def test_small_models_of_the_benchmark_are_planned_no_worse_and_run_alike(name, capsys, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    from executorch_banks import compare

    from hwsim.nnpi.chip import load_chip

    compare(name, load_chip("edge"), 0.25, 600.0)
    line = capsys.readouterr().out.split()
    ours, greedy, bound = map(float, line[4:7])
    assert 0 < bound <= ours <= greedy
    assert int(line[11]) == 0  # what the judges find
    assert float(line[12]) == 0.0  # the outputs of BankedGreedy's program, bit for bit
    assert max(map(float, line[13:15])) < 1e-5


@needs_executorch
def test_alignments_of_banks_hold():
    import torch
    from executorch.exir.banked_memory_planning import Bank, TargetMemoryMap

    banks = TargetMemoryMap([Bank("sram", FAST, 1, alignment=64), Bank("dram", SLOW, 2, alignment=256)])
    algorithm = planner(banks, "edge", seconds=600)
    program, x, expected = _lowered(algorithm)
    assert {
        row.mem_id: row.offset_bytes % {1: 64, 2: 256}[row.mem_id] for row in algorithm.plans[-1].rows
    } == {1: 0, 2: 0}
    assert _judged(program, {1: FAST, 2: SLOW}) == []
    assert torch.allclose(_ran(program, x), expected, atol=1e-5)
    odd = TargetMemoryMap([Bank("sram", FAST, 1, alignment=24), Bank("dram", SLOW, 2)])
    with pytest.raises(InputError, match="multiple of the graph's 16"):
        _lowered(planner(odd, "edge", seconds=600))


@needs_executorch
def test_arguments_of_the_planner_are_checked_at_once(tmp_path, capsys):
    for wrong, said in (
        ({"method": "best"}, "expected one of"),
        ({"seconds": 0}, "seconds: expected a number greater than 0"),
        ({"seed": 0.5}, "seed: expected a whole number"),
    ):
        with pytest.raises(InputError, match=said):
            planner(_map(), "edge", **wrong)
    garbage = tmp_path / "garbage.pt2"
    garbage.write_bytes(b"no archive" * 50)
    argv = ["executorch", str(garbage), "--trust", "-o", str(tmp_path / "p.json")]
    refuse(capsys, argv, "expected a program that ExecuTorch can lower")
