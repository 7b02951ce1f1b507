"""The house: no circles, a small hall, files that can be read in one sitting, folders that say what they are."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import grimp
import numpy as np
import pytest
from budgets import EXCEPTIONS, NAME, Budget, short_budgets
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("workloads", "hwsim", "policies", "population", "analysis", "egrl", "papers")
PLUGGED = sorted(path.parent for path in ROOT.glob("plugins/*/*/__init__.py") if path.parent.name != "tests")
"""The packages of plug-ins."""
MOST_FILES_IN_EGRL = 8
MOST_LINES = 500
LONG = 60
MOST_LONG = 10
"""Functions of more than `LONG` lines."""
SAMPLES = ("budgets.py", "test_architecture.py")
"""Files of the tests that name short budgets and pass none."""


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    """Every import, those within functions and those for type checkers included."""
    return grimp.build_graph(*ROOMS, *(package.name for package in PLUGGED), cache_dir=None)


def sources() -> Iterator[Path]:
    for folder in (*(ROOT / room for room in ROOMS), *PLUGGED):
        yield from sorted(folder.rglob("*.py"))


def circles(edges: list[tuple[str, str]]) -> list[list[str]]:
    """The sets of names that lead to one another along the edges."""
    names = sorted({name for edge in edges for name in edge})
    at = {name: i for i, name in enumerate(names)}
    rows, columns = ([at[edge[k]] for edge in edges] for k in (0, 1))
    matrix = csr_array((np.ones(len(edges)), (rows, columns)), shape=(len(names), len(names)))
    _, label = connected_components(matrix, directed=True, connection="strong")
    groups = [[name for name in names if label[at[name]] == part] for part in set(label.tolist())]
    return [group for group in groups if len(group) > 1]


def test_a_circle_is_found():
    assert circles([("a", "b"), ("b", "c"), ("c", "b"), ("c", "d")]) == [["b", "c"]]


def test_no_file_imports_in_a_circle(graph):
    edges = [
        (importer, imported)
        for importer in graph.modules
        for imported in graph.find_modules_directly_imported_by(importer)
    ]
    assert len(edges) > 1000
    assert circles(edges) == []


def test_nothing_inside_takes_names_from_the_package_itself(graph):
    """`import egrl` is for those outside: what two rooms share lies below both."""
    assert graph.find_modules_that_directly_import("egrl") <= {"egrl.__main__"}


def test_the_hall_is_small():
    files = [path for path in (ROOT / "egrl").iterdir() if path.is_file()]
    assert len(files) <= MOST_FILES_IN_EGRL


def test_every_folder_says_what_it_knows():
    silent = [
        path
        for path in sources()
        if path.name == "__init__.py" and not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not silent


def test_every_file_can_be_read_in_one_sitting():
    long = {path: n for path in sources() if (n := len(path.read_text("utf-8").splitlines())) > MOST_LINES}
    assert not long


@pytest.mark.slow
def test_few_functions_are_long():
    long = [
        f"{path.relative_to(ROOT)}: {node.name}, {node.end_lineno - node.lineno + 1} lines"
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno >= LONG
    ]
    assert len(long) <= MOST_LONG, "\n".join(long)


@pytest.mark.slow
def test_no_test_has_so_few_seconds_that_a_machine_decides_what_is_done_by_then():
    files = [path for folder in ("tests", "plugins") for path in sorted((ROOT / folder).rglob("*.py"))]
    found = [
        budget
        for path in files
        if path.name not in SAMPLES and "tests" in path.relative_to(ROOT).parts
        for budget in short_budgets(path.relative_to(ROOT), path.read_text(encoding="utf-8"))
    ]
    assert len(files) > 300
    wrong = [str(budget) for budget in found if (budget.file.name, budget.words) not in EXCEPTIONS]
    assert not wrong, "\n".join(wrong)
    assert {(budget.file.name, budget.words) for budget in found} == set(EXCEPTIONS)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("search(problem, seconds=0.5)", "seconds=0.5"),
        ("replace(plan, bound_seconds=4.9, seeds=2)", "bound_seconds=4.9"),
        ("solve(tables, time_limit_s=3)", "time_limit_s=3"),
        ("budget = {'seconds': 2.0}", "seconds=2.0"),
        ("main(['run', '--bound-seconds', '1'])", "--bound-seconds 1"),
        ("main([*run, '--set', 'method.seconds=1'])", "seconds=1"),
        ("main('bound --workload bert --seconds 0.2 --json'.split())", "--seconds 0.2"),
        ("SETTINGS = ('evaluator.timeout_s=4',)", "timeout_s=4"),
    ],
)
def test_budgets_of_few_seconds_are_found_however_they_are_passed(text, words):
    assert short_budgets(Path("test_x.py"), f"x = 1\n{text}\n") == [Budget(Path("test_x.py"), 2, words)]


@pytest.mark.parametrize(
    "text",
    [
        "search(problem, seconds=60.0, bound_seconds=0.0, checkpoint_seconds=1.0)",
        "main(['run', '--seconds', '1e-9', '--set', 'method.seconds=600'])",
        "search.tell(batch, [1.0], op_seconds=2.0)",
        "summary = {'evaluations': 42, 'seconds': 3.2}",
        "refuse('--seconds: expected at least 0, found 1')",
    ],
)
def test_budgets_that_are_over_at_once_or_long_and_seconds_of_results_are_let_pass(text):
    assert short_budgets(Path("test_x.py"), text) == []


def test_options_in_seconds_are_known_to_the_check_of_budgets():
    named = [
        node.target.id
        for path in (ROOT / "egrl" / "runs" / "config.py", ROOT / "egrl" / "measure" / "config.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    ]
    seconds = [name for name in named if name.endswith(("seconds", "_s"))]
    assert len(seconds) >= 7
    assert [name for name in seconds if not NAME.fullmatch(name)] == []
