"""What people are told on stderr: that kernels are compiled."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from egrl import api
from egrl.core.contracts import Budget
from egrl.runs import progress

LINE = "egrl: compiling kernels (once for each part that is used) …\n"


@pytest.fixture(autouse=True)
def _told(monkeypatch: pytest.MonkeyPatch) -> None:
    """As users are, and not as other tests are (`conftest.py`)."""
    monkeypatch.setattr(progress, "compiling", progress.compiling.__wrapped__)


def fresh_kernel(folder: Path) -> Callable[[int], int]:
    """A kernel that was never compiled."""
    path = folder / "never_compiled.py"
    path.write_text(
        "from hwsim.jit import kernel\n\n\n@kernel\ndef answer(x: int) -> int:\n    return x + 1\n"
    )
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EGRL_CACHE_DIR", str(folder / "cache"))
        spec.loader.exec_module(module)
    found: Callable[[int], int] = module.answer
    return found


@pytest.mark.parametrize("quiet", [False, True])
def test_a_line_says_that_kernels_are_compiled_unless_quiet_is_wanted(tmp_path, capsys, quiet):
    answer = fresh_kernel(tmp_path)
    with progress.compiling(quiet):
        assert answer(1) == 2
        assert answer(True) == 2  # of another type: compiled, too
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == ("" if quiet else LINE)


@pytest.mark.parametrize("quiet", [False, True])
def test_a_search_says_it_before_its_progress(tmp_path, capsys, monkeypatch, quiet):
    real, answer = api.build_problem, fresh_kernel(tmp_path)

    def build(*given):
        assert answer(1) == 2
        return real(*given)

    out = tmp_path / "before"  # after it no other kernel is compiled
    api.search("alexnet", out=out, method="random", evals=10, quiet=True)
    api.search(resume=out, evals=20, quiet=True)
    monkeypatch.setattr(api, "build_problem", build)
    out = tmp_path / "run"
    for how in ({"workload": "alexnet", "out": out, "method": "random"}, {"resume": out}):
        api.search(**how, evals=10 if "out" in how else 20, quiet=quiet)
        err = capsys.readouterr().err
        assert err.startswith(LINE) == ("out" in how and not quiet)
        assert err.count("compiling") <= 1


@pytest.mark.parametrize(("seconds", "said"), [(0.0, True), (3600.0, False)])
def test_what_takes_long_is_said(capsys, monkeypatch, seconds, said):
    monkeypatch.setattr(progress, "SLOW_SECONDS", seconds)
    err = ""
    with progress.note_if_slow("proving a bound, 10 s at most", quiet=False):
        while said and not err.endswith("\n"):
            time.sleep(0.01)
            err += capsys.readouterr().err
    err += capsys.readouterr().err
    assert err == ("egrl: proving a bound, 10 s at most\n" if said else "")


@pytest.mark.parametrize("phase", [False, True])
def test_the_bar_shows_the_seconds_that_a_limit_counts(capsys, monkeypatch, phase):
    now = [100.0]
    monkeypatch.setattr(progress, "clock", lambda: now[0])
    with progress.ProgressBar("bert ea", Budget(None, 30.0), 0) as bar:
        bar._bar.mininterval = 0.0
        now[0] += 12.0
        if phase:
            bar.phase("gradient steps")
        else:
            bar.evaluations(7, 1.01)
    assert "[00:12 of 00:30]" in capsys.readouterr().err


def test_a_pipe_gets_lines_and_no_bar(capsys, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress, "clock", lambda: now[0])
    with progress.ProgressBar("bert ea", Budget(42, None), 0) as bar:
        bar._bar.mininterval = 0.0
        for count in (21, 42):
            now[0] += 12.0
            bar.evaluations(count, 1.01)
        bar.phase("gradient steps")
    err = capsys.readouterr().err
    assert "\r" not in err
    lines = err.splitlines()
    assert len(lines) == len(set(lines)) >= 4
    assert any(line.startswith("bert ea: 21/42 evals [00:12<") for line in lines)
    assert err.endswith("gradient steps\n")


def test_a_note_stands_above_the_bar_of_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress.observer("bert ea", Budget(42, None), 0, quiet=False) as bar:
        bar.phase("gradient steps")
        progress.note("nothing was gained", quiet=False)
    err = capsys.readouterr().err
    assert "\regrl: nothing was gained\n" in err
    assert "gradient steps" in err.split("gained\n")[1]
