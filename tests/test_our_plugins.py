"""What holds for every plug-in of a clone: its layers, its judges, and that nothing of egrl knows it by name."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import grimp
import pytest
from plugged import ROOT, environment, install

from workloads import plugins

ROOMS = ("workloads", "hwsim", "policies", "population", "analysis", "egrl", "papers")
LINT = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True))"
PLUGINS = sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))
GATE = ("training",)
"""Plug-ins that `make test` builds and installs, which takes seconds each; this one has data of all kinds."""
WITHOUT_EGRL = ("suite",)
"""Plug-ins that can be used without egrl."""
every_plugin = pytest.mark.parametrize("plugin", PLUGINS, ids=lambda path: path.name)


def pyproject(plugin: Path) -> dict[str, Any]:
    return tomllib.loads((plugin / "pyproject.toml").read_text(encoding="utf-8"))


def package(plugin: Path) -> str:
    """The one package of a plug-in."""
    (found,) = (path.parent.name for path in plugin.glob("*/__init__.py"))
    return found


def test_the_list_has_every_plug_in_of_a_clone_and_what_its_entry_points_offer():
    found = {}
    for plugin in PLUGINS:
        project = pyproject(plugin)["project"]
        groups = project["entry-points"].items()
        offers = {group.removeprefix("egrl."): list(names) for group, names in groups}
        found[project["name"]] = {"folder": f"plugins/{plugin.name}", **offers}
    assert plugins.known() == found


@every_plugin
def test_it_is_installed_as_it_is_written_here(plugin):
    for group, names in pyproject(plugin)["project"]["entry-points"].items():
        installed = {entry.name: entry.value for entry in entry_points(group=group)}
        assert names.items() <= installed.items(), f"pip install -e {plugin.relative_to(ROOT)}"


@every_plugin
def test_imports_flow_down_and_the_judge_shares_nothing_with_what_it_judges(plugin):
    program = [sys.executable, "-c", LINT]
    done = subprocess.run(
        program, cwd=plugin, env=environment(plugin), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " kept, 0 broken" in done.stdout


@every_plugin
def test_egrl_has_no_name_of_it(plugin):
    for room in ROOMS:
        for file in (ROOT / room).rglob("*.py"):
            assert package(plugin) not in file.read_text(encoding="utf-8"), file


@every_plugin
def test_it_knows_neither_other_plug_ins_nor_papers_of_the_clone(plugin):
    others = {package(other) for other in PLUGINS} - {package(plugin)} | {
        "papers",
        "tests",
        "tools",
        "benchmarks",
    }
    graph = grimp.build_graph(package(plugin), include_external_packages=True, cache_dir=None)
    assert not others & {module.partition(".")[0] for module in graph.modules}


@every_plugin
def test_it_has_a_guide_and_tests_and_says_what_it_is(plugin):
    project = pyproject(plugin)["project"]
    assert project["name"] == f"egrl-{plugin.name}"
    assert f"pip install ./plugins/{plugin.name}" in (plugin / "README.md").read_text(encoding="utf-8")
    assert list((plugin / "tests").glob("test_*.py"))
    assert "egrl" in project["dependencies"] or plugin.name in WITHOUT_EGRL


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "plugin",
    [
        pytest.param(
            plugin, id=plugin.name, marks=pytest.mark.slow if plugin.name in GATE else pytest.mark.exhaustive
        )
        for plugin in PLUGINS
    ],
)
def test_it_is_whole_without_this_tree(plugin, tmp_path):
    source, folder = tmp_path / "source", tmp_path / "here"
    folder.mkdir()
    shutil.copytree(plugin, source, ignore=shutil.ignore_patterns("build", "*.egg-info", "tests"))
    install(source, tmp_path / "site")
    offers = pyproject(plugin)["project"]["entry-points"]
    loaded = [value.partition(":")[0] for names in offers.values() for value in names.values()]
    program = f"import sys; from importlib import import_module as load; print([load(n).__file__ for n in {loaded}])"
    argv = [sys.executable, "-P", "-c", program]
    done = subprocess.run(
        argv, cwd=folder, env=environment(tmp_path / "site"), capture_output=True, text=True, check=True
    )
    files = ast.literal_eval(done.stdout)
    assert all(file.startswith(str(tmp_path / "site")) for file in files)
    data = {
        path.name
        for path in (plugin / package(plugin)).rglob("*.*")
        if path.suffix in (".j2", ".toml", ".xz")
    }
    assert data <= {path.name for path in (tmp_path / "site").rglob("*.*")}
