"""Searching from Python: in memory, by names and by objects, and turn by turn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import egrl
from egrl.methods.annealing import AnnealingConfig
from egrl.runs.text import percent_up
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiConfig, NnpiProblem
from hwsim.problem import Status
from toys.ragged import ToyRagged
from workloads.errors import InputError
from workloads.load import load


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    """Nothing is left where nothing was asked for."""
    monkeypatch.chdir(tmp_path)
    yield
    assert list(tmp_path.iterdir()) == []


class Climber(egrl.Method):
    """A method from outside: one decision of the best mapping changed at a time."""

    def __init__(self, context: egrl.Context) -> None:
        self.space, self.rng = context.problems[0].space, context.generator("climber")
        self.best, self.reward = self.space.initial, -np.inf

    def ask(self):
        mapping = self.best.copy()
        at = tuple(self.rng.choice(np.argwhere(self.space.live)))
        mapping[at] = self.rng.integers(self.space.num_choices[at])
        return egrl.proposals(mapping[None], "climber")

    def tell(self, proposals, evaluation):
        if evaluation.reward[0] > self.reward:
            self.best, self.reward = evaluation.repaired[0], evaluation.reward[0]


def same(one: egrl.Result, other: egrl.Result) -> bool:
    rewards = [result.history["mean_reward"].tolist() for result in (one, other)]
    return np.array_equal(one.mapping, other.mapping) and rewards[0] == rewards[1]


def test_names_and_objects_are_searched_alike_and_nothing_is_left():
    by_name = egrl.search("alexnet", method="annealing", evals=60)
    assert by_name.folder is None
    assert by_name.summary["evaluations"] == 60
    assert same(by_name, egrl.search(load("alexnet"), chip=load_chip("nnpi"), method="annealing", evals=60))
    problem = NnpiProblem(load("alexnet"), load_chip("nnpi"), NnpiConfig())
    assert same(by_name, egrl.search(problem, method=AnnealingConfig(), evals=60))
    other = egrl.search(problem, method=AnnealingConfig(t0=0.5), evals=60)
    assert same(other, egrl.search(problem, method=AnnealingConfig(), settings=["method.t0=0.5"], evals=60))
    assert not same(by_name, other)
    assert same(other, egrl.search("alexnet", method="annealing", settings=["method.t0=0.5"], evals=60))


def test_a_method_and_a_problem_from_outside_are_searched():
    found = egrl.search(ToyRagged(), method=Climber, evals=200)
    assert found.speedup > 1.1
    assert found.summary["method"] == "Climber"
    assert "toy" in repr(found)
    with pytest.raises(InputError, match="out: expected method and problem by name"):
        egrl.search(ToyRagged(), method=Climber, evals=20, out="run")
    with pytest.raises(InputError, match="method: expected a name"):
        egrl.search("alexnet", method=3)
    with pytest.raises(InputError, match="workload: expected a name"):
        egrl.search(3)


def test_a_path_is_a_file_for_both_ways_of_searching():
    with pytest.raises(InputError, match="no-chip"):
        egrl.Search("alexnet", chip=Path("no-chip.toml"))
    with pytest.raises(InputError, match="no-chip"):
        egrl.search("alexnet", chip=Path("no-chip.toml"), evals=1)


def test_a_result_tells_what_was_found_and_how():
    found = egrl.search("alexnet", method="random", gens=3)
    assert found.history["evaluations"].tolist() == [21, 42, 63]
    assert found.history["best_speedup"][-1] == pytest.approx(found.speedup)
    assert found.history["champion_source"].tolist()[0] == "start"
    assert found.cost == found.summary["best"]["cost"] >= found.bound
    assert found.gap == pytest.approx(found.cost / found.bound - 1)
    assert found.names[0].keys() == {"node", "weight", "activation"}
    compared = "as fast as the built-in baseline heuristic (largest-activations-first-reserve)"
    near = f"within {percent_up(found.gap)} of the best possible"
    assert repr(found) == f"<Result alexnet on nnpi: {compared}, {near}, 63 evaluations>"
    page = found._repr_html_()
    assert "<td>alexnet on nnpi</td>" in page
    assert "the compiler" in page


def test_what_a_name_says_is_no_markup():
    problem = ToyRagged()
    problem.about = replace(problem.about, workload="</td><script>")
    assert "<script>" not in egrl.search(problem, method="random", evals=5)._repr_html_()


def test_each_generation_is_seen_and_may_be_the_last():
    seen = []
    found = egrl.search(
        "alexnet", method="random", gens=50, on_generation=lambda row: seen.append(row) or len(seen) == 3
    )
    assert [row["generation"] for row in seen][:3] == [1, 2, 3]
    assert found.summary["generations"] == 3
    assert not found.summary["complete"]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ea", "annealing", "random", "greedy-dp"])
def test_ask_and_tell_are_the_loops_own_run_evaluation_for_evaluation(method):
    settings = ["method.network.width=8", "method.network.depth=2"] if method == "ea" else []
    problem = ToyRagged()
    expected = egrl.search(problem, method=method, settings=settings, evals=100, seed=3)
    search = egrl.Search(problem, method=method, settings=settings, seed=3)
    sources = []
    while search.evaluations < 100:
        batch = search.ask(limit=min(7, 100 - search.evaluations))
        assert 1 <= len(batch) <= 7
        sources += batch.source
        search.tell(batch, problem.evaluate(batch.proposals.mapping, batch.key))
    found = search.result()
    assert sources[0] == "start"
    assert np.array_equal(expected.mapping, found.mapping)
    assert expected.summary["best"] == found.summary["best"]
    for name in ("evaluations", "mean_reward", "mean_speedup"):
        np.testing.assert_array_equal(found.history[name], expected.history[name][:4])


def test_measured_seconds_are_told_and_the_first_is_the_compilers():
    search = egrl.Search("alexnet", method="annealing", seed=0)
    seconds = []
    while search.evaluations < 60:
        batch = search.ask()
        assert batch.names[0][0]["node"]
        took = [1.0 + float((mapping == 0).mean()) for mapping in batch.mapping]
        took[0] = np.nan if len(seconds) == 20 else took[0]
        seconds += took
        search.tell(batch, took)
    found = search.result()
    assert search.baseline_cost == seconds[0] == found.summary["baseline"]["cost"]
    assert found.speedup == pytest.approx(seconds[0] / np.nanmin(seconds))
    assert found.bound is None
    assert search._context.archive.column("status")[20] == Status.FAILED


def test_mistakes_in_telling_are_said():
    search = egrl.Search("alexnet", method="annealing", start="cold")
    batch = search.ask()
    with pytest.raises(ValueError, match="expected the results of the last batch first"):
        search.ask()
    with pytest.raises(ValueError, match="expected 1 results, received 2"):
        search.tell(batch, [1.0, 2.0])
    with pytest.raises(ValueError, match="does not begin at the baseline"):
        search.tell(batch, [1.0])
    search.tell(batch, search.problem.evaluate(batch.proposals.mapping, batch.key))
    with pytest.raises(ValueError, match="results were given before"):
        search.tell(batch, search.problem.evaluate(batch.proposals.mapping, batch.key))
    with pytest.raises(ValueError, match="throughout"):
        search.tell(search.ask(), [1.0])
    with pytest.raises(ValueError, match="limit of at least 1"):
        search.ask(limit=0)


@pytest.mark.slow
def test_a_method_that_has_nothing_more_ends_the_search():
    search = egrl.Search("alexnet", method="exact")
    for _ in range(2):
        batch = search.ask()
        search.tell(batch, search.problem.evaluate(batch.proposals.mapping, batch.key))
    assert search.ask() is None
    assert search.finished
    assert search.result().summary["complete"]


def test_the_public_names_are_there(monkeypatch):
    assert dir(egrl) == sorted(egrl.__all__)
    for name in egrl.__all__:
        assert getattr(egrl, name) is not None

    with pytest.raises(AttributeError, match="no attribute 'serch'"):
        getattr(egrl, "ser" + "ch")


def test_settings_given_as_an_object_keep_their_limits():
    with pytest.raises(InputError, match=r"^method: t0: expected more than 0.*, found -1"):
        egrl.search("alexnet", method=AnnealingConfig(t0=-1.0), evals=1)
    with pytest.raises(InputError, match=r"^method: t0: .*found 'x'"):
        egrl.search("alexnet", method=AnnealingConfig(t0="x"), evals=1)
