"""What is installed: packages, their data, what they depend on, and what starting the program loads."""

from __future__ import annotations

import ast
import importlib.metadata
import pkgutil
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import yaml

import egrl

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FOUND: dict[str, Any] = PYPROJECT["tool"]["setuptools"]["packages"]["find"]
ROOMS = sorted({pattern.split(".")[0] for pattern in FOUND["include"]})
NOT_PACKAGED = {"tests", "docs", "benchmarks", "examples", "papers", "plugins", "tools", "build", "dist"}

DISTRIBUTIONS = {"umap": "umap-learn", "PIL": "pillow", "sklearn": "scikit-learn", "yaml": "pyyaml"}
"""Modules whose distribution has another name."""
PART_OF = {"annotated_types": "pydantic", "pydantic_core": "pydantic"}
"""Modules of distributions that a declared one requires itself, and whose names are part of its interface."""
HEAVY = (
    "torch",
    "torch_geometric",
    "numba",
    "matplotlib",
    "umap",
    "scipy",
    "deap",
    "pydantic",
    "jinja2",
    "tensorboardX",
    "ray",
    "gymnasium",
)
"""What takes long to import, and is therefore imported where it is used."""
HEAVY_IN_A_RUN = (
    "torch._dynamo",
    "torch_geometric",
    "tensorboardX",
    "scipy.optimize",
    "scipy.sparse",
    "scipy.stats",
    "pandas",
    "matplotlib",
    "umap",
    "ray",
    "gymnasium",
)
"""What takes long to import, and no search needs."""


def normal(name: str) -> str:
    """A distribution's name in the form in which names are compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


def requirement(text: str) -> str:
    """The distribution that a requirement names."""
    return normal(re.split(r"[^A-Za-z0-9._-]", text, maxsplit=1)[0])


def files_of(folder: Path) -> Iterator[Path]:
    """The files below a folder, without caches and hidden ones."""
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if path.is_file() and not any(part == "__pycache__" or part.startswith(".") for part in parts):
            yield path


def sources() -> list[Path]:
    return [path for room in ROOMS for path in files_of(ROOT / room) if path.suffix == ".py"]


def package_of(path: Path) -> str:
    """The innermost package around a file."""
    folder = path.parent
    while not (folder / "__init__.py").is_file():
        folder = folder.parent
    return ".".join(folder.relative_to(ROOT).parts)


def imported(path: Path) -> set[str]:
    """Top-level modules that a file imports anywhere."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.split(".")[0])
    return found


def modules_after(program: str) -> set[str]:
    """Modules that are loaded when a program ends."""
    code = f"{program}\nimport sys\nprint(chr(10) + ' '.join(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_every_package_in_the_tree_is_installed_and_nothing_else():
    folders = [path.parent.relative_to(ROOT).parts for path in ROOT.rglob("__init__.py")]
    found = {
        ".".join(parts)
        for parts in folders
        if parts[0] not in NOT_PACKAGED and not any(part.startswith(".") for part in parts)
    }
    installed = {name for name in found if any(fnmatchcase(name, pattern) for pattern in FOUND["include"])}
    assert sorted(installed) == sorted(found)
    assert not FOUND["namespaces"]  # folders of data are no packages
    assert not [name for name in NOT_PACKAGED if any(fnmatchcase(name, p) for p in FOUND["include"])]


def test_every_source_file_lies_in_a_package():
    bare = {path.parent for path in sources() if not (path.parent / "__init__.py").is_file()}
    assert not bare, f"folders with sources that would not be installed: {sorted(map(str, bare))}"


def test_every_data_file_is_installed_and_every_pattern_finds_one():
    patterns: dict[str, list[str]] = PYPROJECT["tool"]["setuptools"]["package-data"]
    covered: set[Path] = set()
    for package, globs in patterns.items():
        folder = ROOT.joinpath(*package.split("."))
        for pattern in globs:
            found = set(folder.glob(pattern))
            assert found, f"package-data of {package}: {pattern} finds nothing"
            covered |= found
    data = {path for room in ROOMS for path in files_of(ROOT / room) if path.suffix != ".py"}
    missing = [f"{path.relative_to(ROOT)} (package {package_of(path)})" for path in sorted(data - covered)]
    assert not missing, f"not in package-data: {missing}"


def test_every_room_tells_type_checkers_that_it_is_typed():
    assert [room for room in ROOMS if not (ROOT / room / "py.typed").is_file()] == []


@pytest.mark.slow
def test_every_import_is_of_a_declared_distribution():
    project = PYPROJECT["project"]
    declared = {requirement(text) for text in project["dependencies"]}
    for name, texts in project["optional-dependencies"].items():
        if name != "dev":
            declared |= {requirement(text) for text in texts}
    undeclared: dict[str, list[str]] = {}
    for path in sources():
        for module in imported(path) - set(sys.stdlib_module_names) - set(ROOMS):
            name = PART_OF.get(module) or DISTRIBUTIONS.get(module, module)
            if normal(name) not in declared:
                undeclared.setdefault(name, []).append(str(path.relative_to(ROOT)))
    assert not undeclared


@pytest.mark.parametrize("module", PART_OF)
def test_what_comes_with_a_distribution_is_required_by_it(module):
    required = {requirement(text) for text in importlib.metadata.requires(PART_OF[module]) or []}
    assert normal(module) in required


def test_what_is_declared_for_running_is_not_declared_for_developing_again():
    project = PYPROJECT["project"]
    running = {requirement(text) for text in project["dependencies"]}
    assert not running & {requirement(text) for text in project["optional-dependencies"]["dev"]}


def test_the_console_script_names_a_function():
    for target in PYPROJECT["project"]["scripts"].values():
        assert callable(pkgutil.resolve_name(target))


def test_the_files_that_the_project_names_exist():
    project = PYPROJECT["project"]
    for name in (project["readme"], *project["license-files"]):
        assert (ROOT / name).is_file()


def test_the_version_is_the_same_everywhere():
    newest = re.search(r"^## (\S+?),? ", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest is not None
    assert importlib.metadata.version("egrl") == egrl.__version__ == newest.group(1)
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["version"] == egrl.__version__
    assert {"cff-version", "message", "title", "authors"} <= cited.keys()
    assert cited["license"] == PYPROJECT["project"]["license"]


@pytest.mark.parametrize(
    "program",
    ["import egrl", "from egrl.cli.main import main\nassert main(['--help']) == 0"],
    ids=["import egrl", "egrl --help"],
)
def test_starting_loads_nothing_heavy(program):
    loaded = modules_after(program)
    assert "egrl" in loaded
    assert not loaded & {*HEAVY, "numpy", "pydantic"}


@pytest.mark.parametrize(
    ("method", "unneeded"),
    [
        pytest.param("random", ("torch", *HEAVY_IN_A_RUN), marks=pytest.mark.exhaustive),
        pytest.param("ea", HEAVY_IN_A_RUN, marks=pytest.mark.exhaustive),
        ("egrl", HEAVY_IN_A_RUN),
    ],
)
def test_a_run_loads_only_what_it_searches_with(tmp_path, method, unneeded):
    argv = ["run", "--workload", "alexnet", "--gens", "2", "--method", method, "--quiet"]
    argv += (
        ["--set", "method.gradient_steps=0.1", "--set", "method.profile_model.most=16"]
        if method == "egrl"
        else []
    )
    argv += ["--out", str(tmp_path / "run")]
    loaded = modules_after(f"from egrl.cli.main import main\nassert main({argv!r}) == 0")
    assert "hwsim.nnpi.problem" in loaded
    assert ("torch" in loaded) == (method != "random")
    assert not loaded & set(unneeded)


@pytest.mark.slow
def test_placing_by_the_shipped_rules_loads_nothing_that_networks_or_figures_need():
    loaded = modules_after("from egrl.cli.main import main\nassert main(['place', 'alexnet']) == 0")
    assert "hwsim.nnpi.placer" in loaded
    assert not loaded & {"torch", *HEAVY_IN_A_RUN}


WITHOUT_TORCH = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "torch_geometric"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from egrl.cli.main import main

for line in sys.stdin.read().splitlines():
    print(line, "->", main(line.split()), flush=True)
"""
NEEDS_NO_TORCH = """
list workloads
list methods
--version --verbose
evaluate --workload alexnet
bound --workload alexnet
run --workload alexnet --method exact --out exact --quiet
run --workload alexnet --method random --gens 1 --out random --quiet
run --workload alexnet --method twin --evals 20 --out twin --quiet
run --workload alexnet --method annealing --gens 1 --out run --quiet
run --workload alexnet --method annealing --gens 1 --start policy --out placed --quiet
place alexnet -o placed.json
evaluate run
plot curves run -o curves.png
report run -o report.html
export run -o table.csv
trace run -o trace.json
allocate run
watch --once run
chip new mine.toml
""".strip()


@pytest.mark.slow
def test_what_needs_no_torch_runs_without_it_and_the_rest_names_it(tmp_path):
    lines = [*NEEDS_NO_TORCH.splitlines(), "run --workload alexnet --method ea --gens 1 --out ea --quiet"]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH],
        cwd=tmp_path,
        input="\n".join(lines),
        capture_output=True,
        text=True,
    )
    said = [line for line in done.stdout.splitlines() if line.startswith(tuple(lines)) and " -> " in line]
    assert said == [f"{line} -> 0" for line in lines[:-1]] + [f"{lines[-1]} -> 2"], done.stderr
    assert done.stderr.splitlines()[-1] == (
        "egrl: error: this needs torch, which is not installed: pip install torch"
    )
    assert not (tmp_path / "ea").exists()
