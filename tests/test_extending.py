"""The page about code of one's own is true: all that it shows is run, as it stands, in a folder that has its files."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from commands import outcome
from plugged import ROOT, environment, install, run_all

PAGE = (ROOT / "docs" / "guides" / "extending.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "examples" / "plugin"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)


def steps() -> list[tuple[str, str]]:
    """What a reader does, in order: ("file", text), ("pip", ""), or ("egrl", the commands up to the next of these)."""
    found: list[tuple[str, str]] = []
    for language, text in BLOCKS:
        if language != "sh":
            if language == "python":
                found.append(("file", text))
            continue
        for line in text.splitlines():
            if line == "pip install examples/plugin":
                found.append(("pip", ""))
            elif found and found[-1][0] == "egrl":
                found[-1] = ("egrl", f"{found[-1][1]}\n{line}")
            else:
                found.append(("egrl", line))
    return found


def copy_of_the_example(folder: Path) -> Path:
    ignored = shutil.ignore_patterns("build", "*.egg-info")
    return shutil.copytree(EXAMPLE, folder / "plugin", ignore=ignored)


@pytest.mark.exhaustive
def test_all_that_the_page_shows_runs_in_an_empty_folder(tmp_path):
    folder, site = tmp_path / "empty", tmp_path / "site"
    folder.mkdir()
    for name in re.findall(r"^\[(\w+\.py)\]\(\S+\)$", PAGE, flags=re.MULTILINE):
        shutil.copy(EXAMPLE / "egrl_balance" / name, folder)
    kinds = [kind for kind, _ in steps()]
    assert (kinds.count("file"), kinds.count("pip")) == (1, 1)
    for kind, text in steps():
        if kind == "file":
            name = re.match(r"# (\w+\.\w+)\n", text)
            assert name is not None
            (folder / name[1]).write_text(text, encoding="utf-8")
        elif kind == "pip":
            install(copy_of_the_example(tmp_path), site)
        else:
            commands = [shlex.split(line)[1:] for line in text.splitlines()]
            told = run_all(commands, folder, *([site] if site.is_dir() else []))
            for argv, (code, _, err, _) in zip(commands, told, strict=True):
                assert code == 0, f"{shlex.join(argv)}: {err}"
    assert (folder / "installed" / "summary.json").is_file()
    for figure in ("curves.png", "loads.png"):
        assert (folder / figure).stat().st_size > 5000
    program = [sys.executable, "search.py"]
    done = subprocess.run(program, cwd=folder, env=environment(), capture_output=True, text=True, check=True)
    assert float(done.stdout) > 1.0


@pytest.mark.parametrize(("name", "most"), [("climb", 40), ("balance", 60)])
def test_the_example_is_short(name, most):
    assert len((EXAMPLE / "egrl_balance" / f"{name}.py").read_text(encoding="utf-8").splitlines()) <= most


def test_every_name_that_the_page_imports_from_is_there():
    rows = re.findall(r"^\| (`[\w.`, ]+`) \| (.*`.*) \|$", PAGE, flags=re.MULTILINE)
    assert len(rows) >= 8
    for modules, names in rows:
        spaces = [vars(sys.modules[m]) for m in re.findall(r"`([\w.]+)`", modules) if __import__(m)]
        for name in re.findall(r"`(\w+)`", names):
            assert any(name in space for space in spaces), f"{name} of {modules}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, installed into a folder."""
    folder = tmp_path_factory.mktemp("example")
    install(copy_of_the_example(folder), folder / "site")
    return folder / "site"


@pytest.mark.slow
def test_the_example_serves_every_command_once_it_is_installed(site, tmp_path):
    folder = tmp_path / "here"
    folder.mkdir()
    search = ["run", "--problem", "balance", "--workload", "30", "--method", "climb", "--quiet", "--out"]
    told = run_all(
        [
            ["list", "methods"],
            ["list", "problems"],
            ["list", "chips"],
            ["list", "settings", "climb"],
            ["plot", "--help"],
            [*search, "a", "--gens", "6"],
            [*search, "b", "--gens", "3"],
            ["run", "--resume", "b", "--gens", "6", "--workers", "2", "--quiet"],
            ["plot", "curves", "a", "b", "-o", "curves.png"],
            ["plot", "loads", "a", "-o", "loads.png", "--json"],
            ["run", "--workload", "alexnet", "--method", "climb", "--gens", "1", "--quiet", "--out", "c"],
            ["export", "a", "--to", "rota", "-o", "rota.json"],
            ["least", "--workload", "30"],
            ["--help"],
        ],
        folder,
        site,
    )
    assert [(code, err) for code, _, err, _ in told if code != 0] == []
    methods, problems, chips, settings, figures = (out for _, out, _, _ in told[:5])
    assert re.search(r"^climb +Hill climbing: .* \(egrl-balance 0.1\)$", methods, flags=re.MULTILINE)
    assert re.search(r"^balance +Jobs on equal cores, .* \(egrl-balance 0.1\)$", problems, flags=re.MULTILINE)
    assert re.search(r"^default +problems? .*balance", chips, flags=re.MULTILINE)
    assert settings.split()[:2] == ["method.changes", "1"]
    assert re.search(r"^ +loads +How long each core works .*\(egrl-balance", figures, flags=re.MULTILINE)
    assert outcome(folder / "a") == outcome(folder / "b")
    assert '"figure": "loads"' in told[9][1]
    assert sum(map(len, json.loads((folder / "rota.json").read_text()).values())) == 30
    assert re.fullmatch(r"30 jobs on 4 cores: at least [\d.]+ s\n", told[12][1])
    assert re.search(r"^ +least +A method, a problem, [^()]*\(egrl-balance", told[13][1], flags=re.MULTILINE)


@pytest.mark.exhaustive
def test_its_method_is_compared_on_its_problem(site, tmp_path):
    folder = tmp_path / "here"
    folder.mkdir()
    compare = [
        "compare",
        "--problem",
        "balance",
        "--workload",
        "30",
        "--methods",
        "climb,random",
        "--seeds",
        "1",
    ]
    more = ["--evals", "42", "--set", "climb.changes=2", "--out", "compared"]
    ((code, out, err, _),) = run_all([[*compare, *more]], folder, site)
    assert code == 0, err
    assert "climb" in out


@pytest.mark.slow
def test_nothing_is_left_of_an_example_that_is_removed(tmp_path):
    folder = tmp_path / "here"
    folder.mkdir()
    refused, listed = run_all([["least", "--workload", "30"], ["list", "methods"]], folder)
    assert (refused[0], listed[0]) == (2, 0)
    assert "egrl: expected one of run, watch, " in refused[2]
    assert "climb" not in listed[1]


@pytest.mark.exhaustive
def test_nothing_of_a_plug_in_is_imported_until_it_is_used(site, tmp_path):
    folder = tmp_path / "here"
    folder.mkdir()
    run = ["run", "--workload", "alexnet", "--method", "random", "--gens", "1", "--quiet", "--out", "a"]
    for _, _, _, modules in run_all([["--help"], run, ["plot", "curves", "a", "-o", "a.png"]], folder, site):
        assert not {name for name in modules if name.startswith("egrl_balance")}


@pytest.mark.exhaustive
def test_workers_of_ray_find_a_file_of_this_folder(tmp_path):
    pytest.importorskip("ray", reason="the extra `ray`")
    folder = tmp_path / "here"
    folder.mkdir()
    shutil.copy(EXAMPLE / "egrl_balance" / "balance.py", folder)
    run = ["run", "--problem", "balance:Balance", "--workload", "30", "--gens", "2", "--quiet", "--out"]
    here, there = run_all([[*run, "a"], [*run, "b", "--executor", "ray", "--workers", "2"]], folder)
    assert (here[0], there[0]) == (0, 0), there[2]
    assert outcome(folder / "a") == outcome(folder / "b")
