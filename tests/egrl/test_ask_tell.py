"""Searches whose caller measures, in a run folder: killed, gone on with, and never mixed with what a model says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from commands import metrics, outcome, refuse
from plugged import environment

import egrl
from egrl.cli.main import main
from workloads.errors import InputError

SETTINGS = {"ea": ["method.network.width=8", "method.network.depth=2"]}
BOARD = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    print(json.dumps({"id": request["id"], "latency_s": 1.5}), flush=True)
"""
KILLED = """
import os, sys
import egrl
search = egrl.Search("alexnet", method=sys.argv[1], settings=sys.argv[2:], seed=3, out="told", checkpoint_seconds=0.0)
while True:
    batch = search.ask(limit=min(7, 100 - search.evaluations))
    if search.evaluations >= 40:
        os._exit(9)
    search.tell(batch, search.problem.evaluate(batch.proposals.mapping, batch.key))
"""


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def tell_model(search: egrl.Search, evals: int, limit: int = 7) -> None:
    """Tell what the model says, up to so many evaluations."""
    while search.evaluations < evals:
        batch = search.ask(limit=min(limit, evals - search.evaluations))
        assert batch is not None
        search.tell(batch, search.problem.evaluate(batch.proposals.mapping, batch.key))


def tell_seconds(search: egrl.Search, evals: int) -> None:
    """Tell seconds that no model knows; the eleventh measurement fails."""
    while search.evaluations < evals:
        batch = search.ask(limit=evals - search.evaluations)
        assert batch is not None
        took = [1.0 + float((mapping == 0).mean()) for mapping in batch.mapping]
        first = search.evaluations
        search.tell(batch, [np.nan if first + row == 10 else s for row, s in enumerate(took)])


def as_run(path: Path) -> tuple[object, object]:
    """What a folder has in common with the loop's own run: metrics, best mapping, best, evaluations."""
    rows, best, summary = outcome(path)
    return (rows, best), [summary[key] for key in ("best", "baseline", "evaluations", "generations")]


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [
        "ea",
        *(pytest.param(name, marks=pytest.mark.exhaustive) for name in ("annealing", "random", "greedy-dp")),
    ],
)
def test_a_folder_equals_the_loops_own_also_after_a_kill_between_ask_and_tell(method, tmp_path):
    settings = SETTINGS.get(method, [])
    egrl.search("alexnet", method=method, settings=settings, evals=100, seed=3, out="loop")
    program = [sys.executable, "-c", KILLED, method, *settings]
    assert subprocess.run(program, env=environment(), check=False).returncode == 9
    with egrl.Search(resume="told") as search:
        assert 35 <= search.evaluations <= 45
        tell_model(search, 100)
    with egrl.Search("alexnet", method=method, settings=settings, seed=3, out="whole") as search:
        tell_model(search, 100, 11)
    assert as_run(Path("told")) == as_run(Path("loop")) == as_run(Path("whole"))


@pytest.mark.slow
def test_either_goes_on_with_the_others_run():
    egrl.search("alexnet", method="annealing", gens=4, out="loop")
    with egrl.Search("alexnet", method="annealing", out="half") as search:
        tell_model(search, 30)
    egrl.search(resume="half", gens=200, on_generation=lambda row: row["generation"] == 4)
    assert metrics(Path("half"))[:4] == metrics(Path("loop"))
    egrl.search("alexnet", method="annealing", gens=2, out="other")
    with egrl.Search(resume="other") as search:
        tell_model(search, 84)
    assert metrics(Path("other")) == metrics(Path("loop"))


@pytest.mark.slow
def test_seconds_go_on_from_the_first_baseline_and_equal_a_search_in_memory():
    with egrl.Search("alexnet", method="annealing") as search:
        tell_seconds(search, 90)
        expected = search.result()
    with egrl.Search("alexnet", method="annealing", out="told") as search:
        tell_seconds(search, 50)
        found = search.result()
        assert found.folder == Path("told")
    with egrl.Search(resume="told") as search:
        assert search.baseline_cost == found.summary["baseline"]["cost"]
        tell_seconds(search, 90)
        found = search.result()
    assert (
        found.summary["evaluator"]
        == expected.summary["evaluator"]
        == {"command": "told:seconds", "noise": None, "confirmed": False}
    )
    assert found.summary["best"] == expected.summary["best"]
    assert found.history["mean_speedup"].tolist() == expected.history["mean_speedup"].tolist()
    assert found.bound is None
    assert 'evaluator = "told:seconds"' in Path("told/config.toml").read_text()
    statuses = [
        json.loads(line)["status"] for line in Path("told/measurements.jsonl").read_text().splitlines()
    ]
    assert statuses.count("failed") == 1


@pytest.mark.slow
def test_measured_and_modelled_costs_never_mix(capsys):
    with egrl.Search("alexnet", method="annealing", out="seconds") as search:
        tell_seconds(search, 30)
    with egrl.Search("alexnet", method="annealing", out="model") as search:
        tell_model(search, 30)
    for folder, tell, wanted in (("seconds", tell_model, "seconds"), ("model", tell_seconds, "evaluations")):
        with (
            egrl.Search(resume=folder) as search,
            pytest.raises(ValueError, match=f"expected {wanted} throughout"),
        ):
            tell(search, 40)
    line = (
        "the seconds of this run were reported by its caller: expected egrl.Search(resume=…), or --evaluator"
    )
    refuse(capsys, ["run", "--resume", "seconds"], line)
    refuse(capsys, ["run", "--config", "seconds/config.toml", "--out", "again"], line)
    refuse(
        capsys,
        ["run", "--resume", "model", "--evaluator", "cat"],
        "expected none: the model measured this run",
    )
    refuse(
        capsys,
        ["plot", "curves", "seconds", "model"],
        "expected runs of costs by one evaluator, found told:seconds",
    )
    compare = ["compare", "--workload", "alexnet", "--methods", "annealing", "--seeds", "1", "--evals", "210"]
    Path("c/alexnet").mkdir(parents=True)
    os.rename("seconds", "c/alexnet/annealing-s0")
    refuse(capsys, [*compare, "--out", "c"], "run.evaluator: expected none", "found 'told:seconds'")


def test_a_board_goes_on_with_seconds_that_were_told_over_the_same_baseline(tmp_path, capsys):
    with egrl.Search("alexnet", method="annealing", out="told") as search:
        tell_seconds(search, 30)
        baseline = search.baseline_cost
    command = f"{sys.executable} {tmp_path / 'board.py'}"
    (tmp_path / "board.py").write_text(BOARD)
    with pytest.raises(InputError, match="board that measured before, found a baseline of 1500000"):
        egrl.search(resume="told", evaluator=command, gens=200)
    assert 'evaluator = "told:seconds"' in Path("told/config.toml").read_text()
    (tmp_path / "board.py").write_text(BOARD.replace("1.5", repr(baseline)))
    found = egrl.search(
        resume="told", evaluator=command, gens=200, on_generation=lambda row: row["generation"] == 3
    )
    assert found.summary["evaluations"] >= 63
    assert found.summary["evaluator"]["command"] == command
    assert found.summary["baseline"]["cost"] == baseline
    with egrl.Search(resume="told") as search:
        assert search.baseline_cost == baseline
        tell_seconds(search, found.summary["evaluations"] + 5)
    assert 'evaluator = "told:seconds"' in Path("told/config.toml").read_text()


@pytest.mark.slow
def test_a_folder_that_was_told_seconds_is_looked_at_like_any_other(capsys):
    with egrl.Search("alexnet", method="annealing", out="told") as search:
        tell_seconds(search, 45)
        found = search.result()
    assert main(["plot", "curves", "told"]) == 0
    capsys.readouterr()
    assert main(["evaluate", "told"]) == 0
    assert "measured: as fast as the built-in baseline heuristic (largest-" in capsys.readouterr().out
    assert main(["evaluate", "told", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["measured"]
    assert told == {
        "cost": found.cost,
        "speedup": found.speedup,
        "by": "told:seconds",
        "confirmed": False,
        "sure": "not confirmed",
    }


def test_a_search_that_is_closed_says_so_and_an_exception_lets_the_folder_go():
    with pytest.raises(ValueError), egrl.Search("alexnet", method="annealing", out="told") as search:
        tell_model(search, 21) or search.ask(limit=0)
    with egrl.Search(resume="told", checkpoint_seconds=1.0) as search:
        assert search.evaluations == 0
        tell_model(search, 25)
        assert search.result().history["evaluations"].tolist() == [21]
        tell_model(search, 30)
        with pytest.raises(InputError, match="in use"):
            egrl.Search(resume="told")
    assert search.result().history["evaluations"].tolist() == [21, 30]
    with pytest.raises(ValueError, match="ask: expected a search that is open"):
        search.ask()
    search.close()


def test_mistakes_in_naming_a_folder_are_said_in_a_line():
    for arguments, line in (
        ({"workload": "alexnet", "resume": "r"}, "no other flags than .*; found --workload"),
        ({"resume": "r", "seed": 1}, "found --seed"),
        ({"resume": "r"}, "expected a run folder with config.toml, found none"),
        ({"resume": 3}, "--resume: expected a path, found 3"),
        ({"workload": "alexnet", "out": 3}, "--out: expected a path, found 3"),
        ({"workload": "alexnet", "sed": 3}, "option: expected one of .*, found 'sed'; did you mean seed"),
        ({"workload": "alexnet", "seed": "3"}, "seed: expected a valid integer, found '3'"),
    ):
        with pytest.raises(InputError, match=line):
            egrl.Search(**arguments)
    with pytest.raises(InputError, match="out: expected method and problem by name"):
        egrl.Search("alexnet", method=lambda context: None, out="run")


@pytest.mark.parametrize(
    "wrong",
    [-1.0, 0.0, 1e-300, float("inf"), 1e300, "1.0", None, True, 1 + 2j, [[1.0]], 10**400, np.timedelta64(1)],
)
def test_what_cannot_be_seconds_is_refused_and_changes_nothing(wrong):
    search = egrl.Search("alexnet", method="random")
    tell_seconds(search, 1)
    batch = search.ask(limit=3)
    with pytest.raises(ValueError, match=r"^tell: expected seconds above 0 .* for mapping 1$") as caught:
        search.tell(batch, [1.0, wrong, 1.0])
    assert "\n" not in str(caught.value)
    assert search.evaluations == 1
    search.tell(batch, [1.0, np.float32(0.5), float("nan")])
    assert search.evaluations == 4


def test_a_batch_of_another_search_is_refused_and_the_own_one_taken():
    one, other = (egrl.Search("alexnet", method="random", seed=seed) for seed in (0, 1))
    tell_seconds(one, 1)
    tell_seconds(other, 1)
    batch, foreign = one.ask(limit=2), other.ask(limit=2)
    with pytest.raises(ValueError, match="expected a batch of this search"):
        one.tell(foreign, [1.0, 1.0])
    one.tell(batch, [1.0, 1.0])
    assert one.evaluations == 3


@pytest.mark.parametrize("limit", [0, -1, 1.5, 2.0, float("nan"), True, "3", 1 + 0j])
def test_a_limit_is_a_whole_number(limit):
    search = egrl.Search("alexnet", method="random")
    with pytest.raises(ValueError, match="ask: expected a limit of at least 1, a whole number, received"):
        search.ask(limit=limit)
    assert len(search.ask(limit=np.int64(1))) == 1


@pytest.mark.parametrize("wrong", [None, 1.0, "11", {1.0: 1, 2.0: 1}, {1.0, 2.0}, iter([1.0, 1.0]), [1.0]])
def test_what_is_no_list_of_results_is_refused_and_changes_nothing(wrong):
    search = egrl.Search("alexnet", method="random")
    tell_seconds(search, 1)
    batch = search.ask(limit=2)
    with pytest.raises(ValueError, match="tell: expected 2 results, received"):
        search.tell(batch, wrong)
    with pytest.raises(ValueError, match="tell: expected 2 seconds and as many profiles, received"):
        search.tell(batch, [1.0, 1.0], op_seconds=3)
    with pytest.raises(ValueError, match=r"tell: expected a batch .* received"):
        search.tell(wrong, [1.0, 1.0])
    search.tell(batch, [1.0, 1.0])
    assert search.evaluations == 3


def test_an_evaluation_of_other_mappings_is_refused():
    search, other = egrl.Search("alexnet", method="random"), egrl.Search("vgg16", method="random")
    batch, foreign = search.ask(limit=1), other.ask(limit=1)
    evaluation = other.problem.evaluate(foreign.proposals.mapping, foreign.key)
    with pytest.raises(ValueError, match="tell: expected mappings of shape"):
        search.tell(batch, evaluation)
    told = search.problem.evaluate(batch.proposals.mapping, batch.key)
    for name, wrong in (("reward", "x"), ("reward", np.full(1, np.nan)), ("cost", np.ones(2))):
        with pytest.raises(ValueError, match=f"tell: {name}: expected"):
            search.tell(batch, replace(told, **{name: wrong}))
    search.tell(batch, told)
    assert search.evaluations == 1


def test_a_board_may_write_into_the_mappings_that_it_gets():
    search = egrl.Search("alexnet", method="random")
    tell_seconds(search, 1)
    batch = search.ask(limit=2)
    kept = batch.mapping.copy()
    batch.mapping[:] = 99
    search.tell(batch, [1e-9, 2e-9])
    assert (search.result().mapping == kept[0]).all()


def test_a_batch_that_was_told_before_its_turn_is_refused_the_second_time():
    search = egrl.Search("alexnet", method="random")
    tell_seconds(search, 1)
    early, late = search.ask(limit=3), search.ask(limit=3)
    search.tell(late, [2.0] * 3)
    with pytest.raises(ValueError, match="received one whose results were given before"):
        search.tell(late, [1.0] * 3)
    search.tell(early, [1.0] * 3)
    assert search.evaluations == 7
    assert search.result().summary["best"]["cost"] == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("out", ["run", pytest.param(None, marks=pytest.mark.exhaustive)])
def test_threads_share_a_search(out):
    """Eight of them ask, measure and tell; the result is that of one thread."""

    def seconds(mapping):
        return 1.0 + float((mapping == 0).mean())

    def work() -> None:
        while True:
            try:
                with turn:  # else more than 100 would be asked for
                    left = 100 - asked[0]
                    batch = None if left <= 0 else search.ask(limit=min(3, left))
                    asked[0] += 0 if batch is None else len(batch)
            except ValueError as error:
                if "results of the last batch first" not in str(error):
                    raise
                time.sleep(0.001)
                continue
            if batch is None:
                return
            search.tell(batch, [seconds(mapping) for mapping in batch.mapping])

    turn, asked = threading.Lock(), [1]
    with egrl.Search("alexnet", method="annealing", seed=4, out=out) as search:
        tell_seconds(search, 1)
        with ThreadPoolExecutor(8) as pool:
            for done in [pool.submit(work) for _ in range(8)]:
                done.result()
        assert search.evaluations == 100
        found = search.result()
    with egrl.Search("alexnet", method="annealing", seed=4) as alone:
        while alone.evaluations < 100:
            batch = alone.ask(limit=100 - alone.evaluations)
            alone.tell(batch, [seconds(mapping) for mapping in batch.mapping])
        assert alone.result().summary["best"] == found.summary["best"]


def test_two_threads_that_tell_one_batch_tell_it_once():
    search = egrl.Search("alexnet", method="random")
    tell_seconds(search, 1)
    for _ in range(10):
        batch, before = search.ask(limit=5), search.evaluations
        together = threading.Barrier(4)

        def tell(batch=batch, together=together) -> bool:
            together.wait()
            try:
                search.tell(batch, [1.0] * len(batch))
            except ValueError:
                return False
            return True

        with ThreadPoolExecutor(4) as pool:
            told = [pool.submit(tell) for _ in range(4)]
            assert sum(one.result() for one in told) == 1
        assert search.evaluations == before + len(batch)


def true_seconds(mapping: np.ndarray) -> float:
    """Of a board on which mappings differ by about 1 %, in no pattern that a method could learn."""
    return 1.0 + 0.01 * float(np.random.default_rng(list(mapping.tobytes())).standard_normal())


def noisy(rng: np.random.Generator, mapping: np.ndarray, noise: float = 0.03) -> float:
    """One measurement of it."""
    return true_seconds(mapping) * float(np.exp(noise * rng.standard_normal()))


def by_names(problem, rng):
    """A board that gets names, as `Search.confirm` calls it."""
    return lambda names: noisy(rng, egrl.mapping_of(problem, names))


def searched(seed: int, noise: float = 0.03, **more: object) -> tuple[egrl.Search, np.random.Generator]:
    """A search that was told three noisy seconds of each of 60 mappings."""
    rng = np.random.default_rng(seed)
    search = egrl.Search("alexnet", method="random", seed=seed, **more)
    while search.evaluations < 60:
        batch = search.ask(limit=60 - search.evaluations)
        assert batch is not None
        search.tell(batch, [[noisy(rng, mapping, noise) for _ in range(3)] for mapping in batch.mapping])
    return search, rng


def test_of_repeated_seconds_the_median_counts_and_all_are_kept():
    with egrl.Search("alexnet", method="random", seed=0, out="told") as search:
        batch = search.ask(limit=1)
        search.tell(batch, [[2.0, 2.2, 9.0]])
        assert search.baseline_cost == 2.2
        assert search._context.costs.noise == pytest.approx(np.std([2.0, 2.2, 9.0], ddof=1) / 2.2)
        batch = search.ask(limit=2)
        search.tell(batch, np.array([[1.0, 1.1, 5.0, 1.2], [3.0, 3.0, 3.0, 3.0]]))
        assert search.result().cost == pytest.approx(1.15)
    kept = [json.loads(line) for line in Path("told/measurements.jsonl").read_text().splitlines()]
    assert [entry["latency_s"] for entry in kept][:2] == [[2.0, 2.2, 9.0], [1.0, 1.1, 5.0, 1.2]]
    with egrl.Search(resume="told") as search:
        assert search.baseline_cost == 2.2
        assert search._context.costs.noise > 1


@pytest.mark.parametrize("wrong", [[], [1.0, -1.0], [1.0, float("nan")], [1.0, "2"], [[1.0]]])
def test_repeated_seconds_that_make_no_sense_are_refused_and_nothing_changes(wrong):
    search = egrl.Search("alexnet", method="random", seed=0)
    batch = search.ask(limit=1)
    with pytest.raises(ValueError, match="tell: expected seconds"):
        search.tell(batch, [wrong])
    search.tell(batch, [[1.0, 1.1]])
    assert search.evaluations == 1


@pytest.mark.exhaustive
def test_what_is_confirmed_holds_where_the_best_measured_was_lucky():
    """Of 20 boards: a 95% interval holds the truth in 16 at least (all but 4: one time in 400 by chance alone)."""
    inside, lucky, chosen = 0, [], []
    for seed in range(20):
        search, rng = searched(seed)
        first = search.result()
        found = search.confirm(by_names(search.problem, rng))
        baseline, named, before = map(
            true_seconds, (search.problem.baseline.mapping, found.mapping, first.mapping)
        )
        low, high = found.interval
        assert low <= found.speedup <= high
        inside += low <= baseline / named <= high
        lucky.append(first.speedup * before / baseline)
        chosen.append(named / before)
    assert inside >= 16
    assert np.mean(lucky) > 1.01  # the best of 60 by its own measurements: too good
    assert np.mean(chosen) <= 1.0  # what is named is not slower in truth, on average


def test_what_is_confirmed_stands_in_the_folder_until_more_is_told(capsys):
    search, rng = searched(1, out="told")
    assert search.result().interval is None
    calls = []

    def measure(names):
        calls.append(names)
        seconds = noisy(rng, egrl.mapping_of(search.problem, names))
        names.clear()  # they are the caller's own
        return seconds

    found = search.confirm(measure, contenders=3, rounds=6)
    assert 2 * 6 <= len(calls) <= 2 * 6 + 3 * 6
    assert "95% interval" in repr(found)
    summary = json.loads(Path("told/summary.json").read_text())
    assert summary["evaluator"]["speedup_interval"] == list(found.interval)
    assert 1 <= summary["evaluator"]["contenders"] <= 6  # three, and three more if all were odd
    assert summary["baseline"]["cost"] / summary["best"]["cost"] == pytest.approx(found.speedup)
    assert search.result().interval == found.interval
    batch = search.ask(limit=1)
    search.tell(batch, [5.0])
    assert search.result().interval is None
    search.close()


def test_without_repetitions_the_baseline_says_how_noisy_a_board_is():
    rng = np.random.default_rng(0)
    search = egrl.Search("alexnet", method="random", seed=0)
    tell_seconds(search, 30)
    found = search.confirm(by_names(search.problem, rng), rounds=4)
    assert found.summary["evaluator"]["noise"] > 0
    assert found.interval is not None


def test_what_cannot_be_confirmed_is_refused_and_nothing_changes():
    search = egrl.Search("alexnet", method="random", seed=0)
    with pytest.raises(ValueError, match="confirm: expected a search with reported seconds"):
        search.confirm(lambda names: 1.0)
    told = egrl.Search("alexnet", method="random", seed=0)
    tell_model(told, 5)
    with pytest.raises(ValueError, match="confirm: expected a search with reported seconds"):
        told.confirm(lambda names: 1.0)
    tell_seconds(search, 20)
    before = search.result().summary["best"]
    for wrong in ({"contenders": 0}, {"rounds": 1}, {"rounds": 2.5}):
        with pytest.raises(ValueError, match=f"confirm: expected {next(iter(wrong))} from"):
            search.confirm(lambda names: 1.0, **wrong)
    for given in (float("nan"), -1.0, "1", [1.0, 2.0]):
        with pytest.raises(ValueError, match="confirm: expected"):
            search.confirm(lambda names, given=given: given)
    with pytest.raises(OSError, match="unplugged"):
        search.confirm(lambda names: (_ for _ in ()).throw(OSError("unplugged")))
    assert search.result().summary["best"] == before
    search.close()
    with pytest.raises(ValueError, match="closed"):
        search.confirm(lambda names: 1.0)
