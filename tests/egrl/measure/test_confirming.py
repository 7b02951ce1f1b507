"""What is measured again: incumbent and challengers, their luck, the place in a run, and going on with it."""

from __future__ import annotations

import csv
import json
import math
import threading

import numpy as np
import pytest

import egrl
from egrl.core.contracts import CONFIRMED
from egrl.figures.curves import draw
from egrl.measure.confirming import FAILED, FILE, Challenge, Fresh
from egrl.runs.past_run import PastRun
from egrl.runs.progress import best_text

ALEXNET_S = 1e-3


def challenge(*answers: tuple[str, float | None]) -> Challenge:
    found = Challenge("median", 0.05)
    for number, (key, latency_s) in enumerate(answers):
        found.run(Fresh(number, number, key, () if latency_s is None else (latency_s,)))
    return found


def key(fresh: Fresh | None) -> str | None:
    return None if fresh is None else fresh.key


def test_a_challenger_holds_only_once_it_was_as_good_as_often_as_the_holder():
    begun = [("a", 1.0), ("a", 1.0)]
    once = challenge(*begun, ("b", 0.5))
    assert (key(once.incumbent), key(once.challenger), once.due) == ("a", "b", False)
    twice = challenge(*begun, ("b", 0.5), ("b", 0.9))
    assert (key(twice.incumbent), key(twice.challenger), twice.due) == ("b", None, True)
    unlucky = challenge(*begun, ("b", 0.5), ("b", 1.7))
    assert (key(unlucky.incumbent), key(unlucky.challenger), unlucky.due) == ("a", None, True)
    assert unlucky.confirmed.samples == (1.0, 1.0)


def test_what_does_not_run_again_holds_no_more():
    failed = challenge(("a", 1.0), ("a", None))
    assert failed.incumbent is None
    assert failed.confirmed is None
    assert challenge(("a", 1.0), ("a", None), ("b", 2.0)).incumbent.key == "b"
    out = challenge(("a", 1.0), ("b", None))
    assert (key(out.incumbent), out.challenger, out.samples["b"]) == ("a", None, FAILED)


class Board:
    """A board with noise that follows from how often it has measured a mapping.

    With `steady`, from the second time on it says the same, of its first mapping from the sixth on: the baseline, which
    is also measured whenever a board is started.
    """

    def __init__(self, noise: float, steady: bool = False) -> None:
        self.noise, self.steady, self.asked, self.lock = noise, steady, {}, threading.Lock()

    def exact(self, rows) -> float:
        return ALEXNET_S * (2.0 - sum(row.get("activation") == "sram" for row in rows) / len(rows))

    def __call__(self, rows) -> float:
        text = json.dumps(rows)
        with self.lock:
            count = self.asked[text] = self.asked.get(text, 0) + 1
            most = 6 if text == next(iter(self.asked)) else 2
        heard = f"{text}{min(count, most) if self.steady else count}"
        seed = np.frombuffer(heard.encode(), np.uint8).astype(np.uint32)
        return self.exact(rows) * float(np.exp(self.noise * np.random.default_rng(seed).normal()))


def search(board: Board, **options) -> egrl.Result:
    given = {"method": "ea", "evaluator": board, "settings": ["evaluator.repeats=1"]}
    return egrl.search("alexnet", **(given | options))


def rows(path) -> list[dict[str, str]]:
    return list(csv.DictReader((path / "metrics.csv").read_text().splitlines()))


@pytest.mark.exhaustive
def test_the_best_of_a_noisy_board_is_lucky_and_what_was_measured_afresh_is_not(tmp_path):
    above, confirmed, inside = [], [], []
    for seed in range(4):
        board = Board(0.05)
        search(board, gens=20, seed=seed, out=tmp_path / str(seed))
        last = rows(tmp_path / str(seed))[-1]
        value, low, high = (float(last[name]) for name in CONFIRMED)
        asked = [json.loads(line) for line in (tmp_path / str(seed) / FILE).read_text().splitlines()]
        answers = [line for line in asked if line["latency_s"] is not None]
        assert {line["generation"] for line in answers} <= set(range(1, 20))
        assert len(answers) == 19  # the incumbent of the last generation has no next one to be measured in
        truth = [board.exact(json.loads(mapping)) for mapping in board.asked]
        fastest = truth[0] / min(truth)  # the baseline is asked first
        above.append(math.log(float(last["best_speedup"])) - math.log(fastest))
        confirmed.append(math.log(value) - math.log(fastest))
        inside.append(low < high)
    assert all(inside)
    assert np.mean(above) > 0.05  # better than the best mapping that was ever measured is
    assert np.mean(confirmed) < np.mean(above) - 0.04


def test_a_board_whose_costs_are_exact_confirms_nothing_and_neither_does_one_that_is_told_not_to(tmp_path):
    search(Board(0.0), gens=2, settings=["evaluator.exact=true"], out=tmp_path / "quiet")
    search(Board(0.05), gens=2, settings=["evaluator.confirm=false"], out=tmp_path / "off")
    for name in ("quiet", "off"):
        assert CONFIRMED[0] not in rows(tmp_path / name)[0]
        assert not (tmp_path / name / FILE).exists()


@pytest.mark.slow
@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.exhaustive), 3])
def test_a_run_that_goes_on_confirms_what_the_whole_one_does(tmp_path, workers):
    whole, parted = tmp_path / "whole", tmp_path / "parted"
    search(Board(0.05, steady=True), gens=6, out=whole)
    board = Board(0.05, steady=True)
    search(board, gens=3, out=parted, workers=workers)
    # It had come further than its last checkpoint when it was killed in the middle of a line.
    (parted / FILE).write_bytes((whole / FILE).read_bytes()[:-30])
    egrl.search(resume=parted, gens=6, evaluator=board)
    names = ("generation", "evaluations", "best_speedup", *CONFIRMED)
    assert [[row[n] for n in names] for row in rows(parted)] == [
        [row[n] for n in names] for row in rows(whole)
    ]


def test_people_are_shown_what_holds(tmp_path):
    row = {"best_speedup": 1.2, "confirmed_speedup": 1.05, "confirmed_low": 1.01, "confirmed_high": 1.09}
    assert best_text(row) == "confirmed 1.050x (1.010 to 1.090)"
    assert best_text(row | dict.fromkeys(CONFIRMED, "nan")) == "best 1.200x as measured"
    assert best_text({"best_speedup": "1.2"}, 4) == "best 1.2000x"
    assert best_text({"best_speedup": "1.2", "best_reward": "1.44"}) == "best 1.200x"
    assert best_text({"best_speedup": "1.2", "best_reward": "0.95"}) == "best 1.200x, reward 0.9500"
    search(Board(0.05), gens=4, out=tmp_path / "r")
    run = PastRun.read(tmp_path / "r")
    (band,) = draw([run]).numbers["curves"]
    assert band["confirmed"] is True
    assert band["mean"][-1] == run.summary["best"]["speedup"]
    assert [band["low"][-1], band["high"][-1]] == run.summary["evaluator"]["speedup_interval"]
    search(Board(0.05), gens=2, settings=["evaluator.confirm=false"], out=tmp_path / "off")
    (remark,) = draw([PastRun.read(tmp_path / "off")]).remarks
    assert "which noise flatters" in remark
