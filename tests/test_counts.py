"""The counts of `tools/counts.py` count what they say."""

from __future__ import annotations

import pytest

import counts


def test_lines_and_files_of_a_small_house_are_counted(tmp_path):
    for room in counts.ROOMS:
        (tmp_path / room / "inner").mkdir(parents=True)
        (tmp_path / room / "__init__.py").write_text('"""A room."""\n')
    (tmp_path / "egrl" / "inner" / "a.py").write_text("x = 1\n\ny = 2\n")
    (tmp_path / "egrl" / "inner" / "a.toml").write_text("x = 1\n")
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "b.py").write_text("x = 1\n")
    assert counts.lines(tmp_path) == dict.fromkeys(counts.ROOMS, 1) | {"egrl": 4}
    assert counts.files(tmp_path) == 2


@pytest.mark.exhaustive
def test_a_run_loads_the_way_from_the_command_to_its_problem_and_no_other_command():
    names, called = counts.passed()
    assert {"egrl/cli/run.py", "egrl/api.py", "hwsim/nnpi/problem.py", "population/plus.py"} <= set(names)
    others = {
        "egrl/cli/studies.py",
        "egrl/methods/annealing.py",
        "egrl/methods/egrl/sac_learner.py",
        "egrl/runs/past_run.py",
        "egrl/runs/resume.py",
    }
    assert not {*others, "hwsim/family.py", "hwsim/mcm/problem.py"} & set(names)
    assert {("egrl/api.py", "search"), ("egrl/core/loop.py", "search")} <= set(called)
    assert all(file.startswith("egrl/") for file, _ in called)
