"""A training step in a Python file: imported, planned, run as planned, and measured by a board."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

import egrl_training as training
from compiling import QUIET, fresh  # noqa: F401  (a fixture of all)
from egrl.cli.main import cli
from egrl_training.pytorch import board
from egrl_training.steps.load import load_training

pytestmark = QUIET
PLUGIN = Path(__file__).resolve().parents[1]


STEP = """
import torch
from torch import nn


def build():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 1))
    return Loss(net), (torch.randn(64, 32),)


class Loss(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net(x).square().mean()
"""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::workloads.errors.Notice")
def test_the_commands_of_the_guide_go_from_python_to_a_plan_and_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As they stand, but for the backend, whose kernels take long to compile, and fewer requests."""
    text = "".join((PLUGIN / f"{name}.md").read_text(encoding="utf-8") for name in ("README", "files"))
    (program,) = (code for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "def build" in code)
    shown = [line for code in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in code.splitlines()]
    lines = [line for line in shown if line.startswith("egrl ")]
    (tmp_path / "step.py").write_text(program)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    for line in lines:
        argv = shlex.split(line.replace("inductor", "aot_eager").replace("--requests 30", "--requests 12"))
        done = CliRunner().invoke(cli, argv[1:])
        assert done.exit_code == 0, (line, done.output, done.exception)
    assert [line.split()[1] for line in lines] == ["fits", "capture", "run", "export", "run"]
    step = load_training("step.json")
    assert step.name == "step"
    from egrl_training.pytorch.step_file import load

    function, inputs = load("step.py")
    with training.memory_limit(plan="plan.json", quiet=True) as made:
        compiled_step = torch.compile(function, backend="aot_eager")
    compiled_step(*inputs).backward()
    assert len(made) == 1
    assert len(made[0].keep) < len(step.candidates)


@pytest.mark.exhaustive
def test_a_plan_with_values_on_the_host_goes_from_a_run_to_pytorch(tmp_path: Path) -> None:
    file, device = tmp_path / "mlp.py", tmp_path / "host.toml"
    file.write_text(STEP.replace("(64, 32)", "(4096, 32)"))
    device.write_text(
        'kind = "training-device"\nversion = 1\nname = "host"\nmemory_fraction = 0.8\n'
        "to_host_Bps = 2e10\nfrom_host_Bps = 2e10\n"
    )
    run = CliRunner()
    step, folder, plan = (str(tmp_path / name) for name in ("mlp.json", "run", "plan.json"))
    assert run.invoke(cli, ["capture", str(file), "-o", step]).exit_code == 0
    arguments = [
        "--problem",
        "training",
        "--workload",
        step,
        "--chip",
        str(device),
        "--out",
        folder,
        "--quiet",
    ]
    searched = run.invoke(cli, ["run", *arguments, "--method", "annealing", "--evals", "300"])
    assert searched.exit_code == 0, searched.output
    assert run.invoke(cli, ["export", folder, "--to", "pytorch", "-o", plan]).exit_code == 0
    from egrl_training.pytorch.step_file import load

    function, inputs = load(str(file))
    with training.memory_limit(plan=plan, quiet=True) as made:
        compiled_step = torch.compile(function, backend="aot_eager")
    compiled_step(*inputs).backward()
    ours = [parameter.grad.clone() for parameter in function.parameters()]
    function.zero_grad()
    function(*inputs).backward()
    assert made[0].offload
    assert all(torch.allclose(a, b.grad, rtol=1e-5) for a, b in zip(ours, function.parameters(), strict=True))


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "expected a function build"), ("def build(): return 1", "expected build"), (None, "no such file")],
)
def test_a_file_without_a_step_ends_in_one_line(tmp_path: Path, text: str | None, message: str) -> None:
    file = tmp_path / "step.py"
    if text is not None:
        file.write_text(text)
    ended = CliRunner().invoke(cli, ["capture", str(file), "-o", str(tmp_path / "step.json")])
    assert ended.exit_code != 0
    assert message in str(ended.exception)


@pytest.mark.exhaustive
def test_the_board_answers_with_seconds_and_refuses_above_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mlp.py"
    file.write_text(STEP)
    request = json.dumps({"id": 3, "mapping": [{"node": "gelu", "storage": "keep"}]}) + "\n"
    argv = [str(file), "--backend", "aot_eager", "--runs", "2"]
    command = [sys.executable, "-m", "egrl_training.pytorch.board", *argv]
    done = subprocess.run(command, input=request, capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)
    assert answer["id"] == 3
    assert len(answer["latency_s"]) == 2
    assert min(answer["latency_s"]) > 0
    monkeypatch.setattr(sys, "stdin", io.StringIO(request))
    assert board.main([*argv, "--limit", "1 KiB"]) == 0
    assert json.loads(capsys.readouterr().out)["invalid"] is True
