"""A run that found its best early says so: while it goes on, and at its end."""

from __future__ import annotations

import json
from typing import Any

import pytest

import egrl
from egrl.cli.main import main
from egrl.core.contracts import Budget, Observer
from egrl.core.interrupts import Interrupted
from egrl.runs import gap
from egrl.runs.config import RunOptions, share_of
from egrl.runs.gap import LONG, NEAR, WIDEST, Gap, HardlyPays
from egrl.runs.progress import GAIN, IDLE, Gains
from egrl.runs.summary import sentence
from hwsim.problem import UNPROVED, Bound
from toys.chain import ToyChain

EARLY: dict[str, Any] = {"method": "annealing", "gens": 40}
"""On AlexNet, whose bound ships: within 0.01 % of it after a few generations."""
SAID = "20 generations have gained nothing; Ctrl-C ends the run and keeps the best\n"


def gap_of(share: float, bound: Bound | None = None) -> tuple[Gap, float]:
    """A gap that watches a run, and the speedup that is this share away from the bound."""
    problem = ToyChain()
    watch = Gap(problem, RunOptions(bound_seconds=0.0), None, Observer(), True)
    watch.proven = watch.begun_with = bound or Bound(0.5 * problem.baseline.cost, float("inf"), "", 0.0)
    return watch, 2.0 / (1 + share)


def rows(speedup: float, generations: int, every: int = 21) -> list[dict[str, Any]]:
    """The first generation finds nothing, the second one finds it."""
    return [
        {"evaluations": every * n, "best_speedup": speedup if n > 1 else 1.0, "best_reward": float("nan")}
        for n in range(1, generations + 1)
    ]


def notes(watch: Gap, given: list[dict[str, Any]], known: int = 0, budget: int | None = None) -> list[int]:
    """The generations, of those after the first `known`, at which something is said."""
    gains, said = Gains(21, given[:known]), list[int]()
    hardly = HardlyPays(watch, gains, Budget(budget, None), given[:known], False)
    for n, each in enumerate(given[known:], known + 1):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(gap.progress, "note", lambda text, quiet, n=n: said.append(n))
            for observer in (gains, hardly):
                observer.generation(each)
    return said


# ---- while it goes on


def test_it_is_said_once_that_going_on_hardly_pays():
    watch, speedup = gap_of(0.9 * NEAR)
    assert notes(watch, rows(speedup, 60)) == [2 + LONG]


@pytest.mark.parametrize("known", [1, 1 + LONG, 2 + LONG, 30])
def test_a_resumed_run_says_it_only_if_it_was_not_said_before(known):
    watch, speedup = gap_of(0.9 * NEAR)
    assert notes(watch, rows(speedup, 60), known) == ([2 + LONG] if known < 2 + LONG else [])


def test_it_is_not_said_while_much_can_be_gained_or_something_was_or_at_the_end():
    watch, speedup = gap_of(1.01 * NEAR)
    assert notes(watch, rows(speedup, 60)) == []
    watch, speedup = gap_of(0.9 * NEAR)
    assert notes(watch, rows(speedup, 1 + LONG)) == []
    rising = [
        {**row, "best_speedup": speedup * (1 + 1.1 * GAIN * n / LONG)} for n, row in enumerate(rows(1.0, 60))
    ]
    assert notes(watch, rising) == []
    assert notes(watch, rows(speedup, 2 + LONG), budget=21 * (2 + LONG)) == []
    watch.reached = True
    assert notes(watch, rows(speedup, 60)) == []
    for unknown in (UNPROVED, Bound(0.5 * ToyChain().baseline.cost, 2.0, "", 0.0)):
        assert notes(gap_of(0.0, unknown)[0], rows(speedup, 60)) == []


@pytest.mark.slow
def test_a_search_says_it_beside_the_same_results(capsys, monkeypatch):
    noted = egrl.search("alexnet", **EARLY, quiet=False)
    err = capsys.readouterr().err
    assert err.count(SAID) == 1
    assert "egrl: at most 0.01% can still be gained, and " in err
    quiet = egrl.search("alexnet", **EARLY)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(gap, "NEAR", 0.0)
    silent = egrl.search("alexnet", **EARLY, quiet=False)
    assert SAID not in capsys.readouterr().err
    for other in (quiet, silent):
        assert (other.mapping == noted.mapping).all()
        assert other.history["best_speedup"].tolist() == noted.history["best_speedup"].tolist()


@pytest.mark.exhaustive
def test_ctrl_c_keeps_the_best_and_the_run_that_goes_on_does_not_say_it_again(tmp_path, capsys):
    out = tmp_path / "r"
    stopped: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gap.progress, "note", lambda text, quiet: stopped.append(text))
        patch.setattr("egrl.runs.conduct.StopSignal", lambda hint: _Stopped(stopped))
        with pytest.raises(Interrupted):
            egrl.search("alexnet", **EARLY, out=out, quiet=False)
    assert len(stopped) == 1
    document = json.loads((out / "summary.json").read_text())
    assert (document["stopped"], "sooner" in document) == ("user", False)
    assert (out / "best_mapping.json").exists()
    capsys.readouterr()
    whole = egrl.search("alexnet", **EARLY)
    again = egrl.search(resume=out, quiet=False)
    err = capsys.readouterr().err
    assert SAID not in err
    assert "no gain in " in err
    assert again.summary["sooner"] == whole.summary["sooner"]


class _Stopped:
    """Ctrl-C as soon as something is in the list."""

    def __init__(self, said: list[str]) -> None:
        self._said = said

    def __enter__(self) -> Any:
        return lambda: bool(self._said)

    def __exit__(self, *error: object) -> None:
        pass


# ---- at its end


@pytest.mark.slow
def test_the_end_names_the_gap_that_would_have_stopped_it_and_that_is_so(tmp_path, capsys):
    out = tmp_path / "r"
    argv = ["run", "--workload", "alexnet", "--method", "annealing", "--gens", "40"]
    assert main([*argv, "--out", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    document = json.loads((out / "summary.json").read_text())
    found = document["sooner"]
    share, count = found["until_gap"], found["evaluations"]
    gained = "at most 0.01%" if found["rest"] > 0 else "nothing"
    said = f"after the first {count} evaluations the search gained {gained}; --until-gap {share} would have"
    said += " stopped there"
    assert lines[lines.index(f"run folder: {out}") - 1] == said
    assert document["gap"] <= share_of(share)
    near = egrl.search("alexnet", **EARLY, until_gap=share).summary
    assert (near["stopped"], near["evaluations"]) == ("gap", count)
    assert near["best"]["speedup"] * (1 + found["rest"]) == pytest.approx(document["best"]["speedup"])
    assert found["rest"] <= GAIN


@pytest.mark.slow
@pytest.mark.parametrize("flag", ["--quiet", "--json"])
def test_nothing_is_said_where_nothing_or_json_is_wanted(flag, tmp_path, capsys):
    argv = ["run", "--workload", "alexnet", "--method", "annealing", "--gens", "40", flag]
    assert main([*argv, "--out", str(tmp_path / "r")]) == 0
    out = capsys.readouterr().out
    assert "would have stopped" not in out
    assert (json.loads(out)["sooner"]["known"] is True) if flag == "--json" else out == ""


@pytest.mark.slow
@pytest.mark.parametrize("asked", [pytest.param("0.001%", marks=pytest.mark.exhaustive), "never"])
def test_nothing_is_said_to_who_gave_a_gap(asked):
    assert "sooner" not in egrl.search("alexnet", **EARLY, until_gap=asked).summary


def ended(speedup: float, generations: int, bound: float | None = 0.5, **changes: Any) -> dict[str, Any]:
    """What the summary of a run of the toy says, whose best comes with the second generation."""
    watch, _ = gap_of(0.0)
    watch.begun_with = changes.pop("begun_with", watch.begun_with)
    cost = None if bound is None else bound * ToyChain().baseline.cost
    document = {"bound": cost, "stopped": "budget", "best": {"speedup": speedup}} | changes
    found = gap.sooner(watch, Gains(21, rows(speedup, generations)), document)
    return found or {}


def test_little_to_save_is_not_said():
    assert ended(1.99, 2 + IDLE) == {"until_gap": "0.6%", "evaluations": 42, "rest": 0.0, "known": True}
    assert ended(1.99, 1 + IDLE) == {}
    assert ended(1.99, 30, bound=None) == {}
    assert ended(1.99, 30, stopped="user") == {}
    assert ended(1.99, 30, reward_bound=1.0) == {}
    assert ended(2.0 / (1 + 1.01 * WIDEST), 30) == {}
    assert ended(2.0, 30)["until_gap"] == "0%"


@pytest.mark.parametrize(("before", "said"), [(11, True), (12, False)])
def test_half_of_the_evaluations_have_to_come_after_the_last_gain(before, said):
    watch, _ = gap_of(0.0)
    given = rows(1.99, 24)
    for row in given[:before]:
        row["best_speedup"] = 1.0
    document = {"bound": watch.proven.cost, "stopped": "budget", "best": {"speedup": 1.99}}
    assert (gap.sooner(watch, Gains(21, given), document) is not None) == said


@pytest.mark.exhaustive
def test_a_run_that_went_on_counts_from_its_beginning(tmp_path):
    egrl.search("alexnet", **EARLY | {"gens": 15}, out=tmp_path / "r")
    again = egrl.search(resume=tmp_path / "r", gens=40)
    assert again.summary["sooner"] == egrl.search("alexnet", **EARLY).summary["sooner"]


def test_a_gap_that_would_have_stopped_it_before_the_last_gain_is_not_advised():
    watch, _ = gap_of(0.0)
    given = rows(2.0 / 1.0042, 40)
    given[0]["best_speedup"] = 2.0 / 1.0048
    document = {
        "bound": watch.proven.cost,
        "stopped": "budget",
        "best": {"speedup": given[-1]["best_speedup"]},
    }
    found = gap.sooner(watch, Gains(21, given), document)
    assert found is not None
    assert (found["until_gap"], found["evaluations"]) == ("0.43%", 42)


def test_a_bound_that_came_only_at_the_end_is_said_to_take_a_proof():
    found = ended(1.99, 30, begun_with=UNPROVED)
    assert found["known"] is False
    said = "after the first 42 evaluations the search gained nothing; --until-gap 0.6% stops there as soon as the gap"
    said += " is proved"
    text = sentence({**egrl.search("alexnet", method="random", gens=1).summary, "sooner": found}, "r")
    assert said in text.splitlines()
