"""Files that build a training step are run as Python runs them: they import what lies beside them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from commands import refuse

from compiling import QUIET, fresh  # noqa: F401  (a fixture of all)
from egrl.cli.main import main
from egrl_training.pytorch import step_file
from egrl_training.pytorch.no_data import load_without_data

pytestmark = QUIET
NET = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(WIDTH, WIDTH)
    def forward(self, x):
        return self.layer(x).square().mean()
"""
STEP = """
import torch
{imports}
def build():
    {late}
    return Net(), (torch.randn(4, WIDTH),)
"""


def step(
    folder: Path, name: str = "net", width: int = 8, *, late: bool = False, package: bool = False
) -> str:
    """The path of a step file whose network lies beside it in a module called `name`."""
    folder.mkdir(exist_ok=True)
    beside = folder / f"{name}.py"
    if package:
        (folder / name).mkdir()
        beside = folder / name / "__init__.py"
    beside.write_text(f"WIDTH = {width}\n{NET}")
    imports = f"from {name} import WIDTH, Net"
    file = folder / "step.py"
    file.write_text(STEP.format(imports="" if late else imports, late=imports if late else "pass"))
    return str(file)


@pytest.fixture(autouse=True)
def left_as_it_was(monkeypatch):
    """The modules of step files, and where Python looks, are as before."""
    path, modules = list(sys.path), dict(sys.modules)
    yield
    sys.path[:] = path
    for name in sys.modules.keys() - modules.keys():
        if name.partition(".")[0] in {"net", "parts", "analysis", "step"}:
            del sys.modules[name]


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("package", [False, True])
def test_a_step_file_imports_what_lies_beside_it(late, package, tmp_path, capsys, monkeypatch):
    file = step(tmp_path / "there", "parts", late=late, package=package)
    monkeypatch.chdir(tmp_path)
    assert main(["capture", file, "-o", "step.json"]) == 0
    assert capsys.readouterr().out.startswith("step: ")
    assert main(["fits", file, "--memory", "1 MiB"]) == 0
    assert "Fits in 1 MiB" in capsys.readouterr().out


def test_a_loss_may_import_when_it_runs(tmp_path):
    file = tmp_path / "step.py"
    (tmp_path / "parts.py").write_text("def scaled(x):\n    return 3 * x\n")
    file.write_text(
        "import torch\n"
        "def loss(x):\n"
        "    from parts import scaled\n"
        "    return scaled(x).sum()\n"
        "def build():\n"
        "    return loss, (torch.ones(2),)\n"
    )
    function, inputs = step_file.load(str(file))
    assert function(*inputs) == 6


def test_modules_of_another_step_file_are_others(tmp_path):
    widths = []
    for folder, width in (("one", 8), ("other", 16)):
        widths.append(step_file.load(step(tmp_path / folder, width=width))[1][0].shape[1])
    assert widths == [8, 16]


def test_a_module_beside_it_may_be_called_like_one_of_others(tmp_path):
    """`analysis` is one of egrl's own, which is there afterwards as before."""
    import analysis

    function, _ = load_without_data(step(tmp_path, "analysis"))
    assert type(function).__name__ == "Net"
    assert sys.modules["analysis"] is analysis


def test_a_step_file_of_any_name_may_import_a_module_step(tmp_path):
    (tmp_path / "step.py").write_text(
        "import torch\ndef make():\n    return (torch.ones(2, requires_grad=True),)\n"
    )
    file = tmp_path / "other.py"
    file.write_text("import torch\nfrom step import make\ndef build():\n    return torch.sum, make()\n")
    assert step_file.load(str(file))[1][0].shape == (2,)


def test_a_step_file_sees_no_arguments(tmp_path):
    file = tmp_path / "step.py"
    file.write_text(
        "import argparse, torch\n"
        "argparse.ArgumentParser().parse_args()\n"
        "def build():\n"
        "    argparse.ArgumentParser().parse_args()\n"
        "    return torch.sum, (torch.ones(2, requires_grad=True),)\n"
    )
    argv = list(sys.argv)
    assert step_file.load(str(file))[0] is torch.sum
    assert sys.argv == argv


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import there_is_none_of_it\n", "ModuleNotFoundError: No module named 'there_is_none_of_it'"),
        ("from torch import there_is_none\n", "ImportError: cannot import name 'there_is_none'"),
        ("def build():\n    import there_is_none_of_it\n", "ModuleNotFoundError"),
        ("def build(:\n", "SyntaxError: invalid syntax"),
    ],
)
def test_what_cannot_be_imported_is_refused_in_one_line(text, why, tmp_path, capsys):
    file = tmp_path / "step.py"
    file.write_text(text)
    for argv in (
        ["capture", str(file), "-o", str(tmp_path / "step.json")],
        ["fits", str(file), "--memory", "1 GiB"],
    ):
        refuse(capsys, argv, f"{file}: expected Python that can be imported, found {why}")
