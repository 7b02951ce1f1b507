"""A budget in requests: what a board is asked stays within it, and what it cannot be is refused."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import egrl
from egrl.measure.config import EvaluatorConfig
from egrl.runs import config
from egrl.runs.config import resolve
from workloads.errors import InputError

PAGE = (Path(__file__).parents[3] / "docs" / "guides" / "boards.md").read_text(encoding="utf-8")


class Noisy:
    """A board that counts what it is asked."""

    def __init__(self, noise: float) -> None:
        self.noise, self.asked, self.rng = noise, 0, np.random.default_rng(0)

    def __call__(self, rows) -> float:
        self.asked += 1
        sram = sum(row.get("activation") == "sram" for row in rows) / len(rows)
        return float(1e-3 * (2.0 - sram) * np.exp(self.noise * self.rng.normal()))


OPTIONS = {"workload": "alexnet", "method": "annealing", "evaluator": "board"}


def search(board: Noisy, **options) -> egrl.Result:
    return egrl.search("alexnet", **({"method": "annealing", "evaluator": board} | options))


@pytest.mark.parametrize("count", [15, 50, 120])
@pytest.mark.parametrize("noise", [0.0, 0.001, 0.05])
def test_a_board_is_asked_no_more_often_than_the_budget_says(count, noise):
    board = Noisy(noise)
    with pytest.warns(UserWarning, match=f"--requests {count}"):
        result = search(board, requests=count)
    assert result.summary["evaluator"]["requests"] == board.asked <= count
    assert result.summary["evaluations"] >= 0.6 * count - 8
    if noise == 0.05 and count > 15:
        assert result.summary["evaluator"]["contenders"] > 1


def test_a_board_without_a_budget_is_asked_a_hundred_times_and_the_first_line_says_so(capsys):
    board = Noisy(0.0)
    result = search(board, quiet=False)
    assert result.summary["evaluator"]["requests"] == board.asked <= 100
    assert result.summary["evaluations"] == 71
    first, measuring, time, *_ = capsys.readouterr().err.splitlines()
    assert first.startswith(
        "egrl: no budget is given: --requests 100: 71 evaluations; measuring the baseline"
    )
    assert "measuring the baseline" in measuring
    assert re.fullmatch(
        r"egrl: a request takes \S+ s: 71 evaluations take (less than a second|\d+ s at least)", time
    )


def test_a_budget_of_its_own_and_repeats_of_its_own_are_what_they_were(capsys):
    assert search(Noisy(0.0), evals=5).summary["evaluations"] == 5
    assert resolve(OPTIONS, ["evaluator.repeats=3"]).run.budget() == {}
    assert resolve(OPTIONS).run.budget() == {"evals": 71}


@pytest.mark.parametrize(
    ("requests", "method", "words"),
    [
        (
            39,
            "egrl",
            "fewer than 40 the best is chosen by one measurement of each mapping, and the model of the board that",
        ),
        (39, "annealing", "; with fewer than 40 the best is chosen by one measurement of each mapping"),
        (40, "egrl", ""),
    ],
)
def test_a_budget_says_what_is_lost_where_it_is_small(requests, method, words):
    said = config.words_of_requests(requests, 20, method)
    assert words in said
    assert ("fewer than" in said) == bool(words)
    assert ("learns" in said) == (method == "egrl" and bool(words))
    assert (config.settings_of_requests(requests)["contenders"] < 2) == bool(words)


def test_the_page_has_the_numbers_that_are_computed():
    rows = re.findall(r"^\| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", PAGE, flags=re.MULTILINE)
    assert len(rows) == 5
    for count, evals, contenders, rounds, comparisons in (tuple(map(int, row)) for row in rows):
        found = config.settings_of_requests(count)
        counted = {"contenders": contenders, "rounds": rounds, "comparisons": comparisons}
        assert found == {"repeats": 1, **counted}
        assert config.evaluations_of_requests(count, EvaluatorConfig(**found), 21) == evals


@pytest.mark.parametrize("generation_evals", [1, 2, 21])
def test_every_request_that_is_left_is_an_evaluation_or_measures_the_best_afresh(generation_evals):
    settings = EvaluatorConfig(repeats=1, contenders=0, warmup=0)
    for count in range(6, 300):
        evals, left = config.evaluations_of_requests(count, settings, generation_evals), count - 5
        assert evals + (evals - 1) // generation_evals <= left < evals + 1 + evals // generation_evals
        assert config.evaluations_of_requests(count, replace(settings, confirm=False), 21) == left


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"evaluator": None}, "--evaluator"),
        ({"evals": 10}, "--evals"),
        ({"requests": 11}, "more than 11"),
        ({"requests": 0}, "more than 11"),
        ({"settings": ["evaluator.repeats=2"]}, "repeats"),
        ({"settings": ["evaluator.comparisons=22"]}, "confirming the best may need"),
    ],
)
def test_a_budget_that_cannot_be_is_refused(options, word):
    with pytest.raises(InputError, match=word):
        search(Noisy(0.0), **({"requests": 50} | options))


def test_settings_that_are_given_hold_and_the_evaluations_follow(tmp_path):
    with pytest.warns(UserWarning, match="42 evaluations"):
        result = search(Noisy(0.05), requests=50, settings=["evaluator.contenders=0"], out=tmp_path / "r")
    assert result.summary["evaluations"] == 42
    config = (tmp_path / "r" / "config.toml").read_text()
    assert "evals = 42" in config
    assert "requests =" not in config


def test_a_run_that_has_spent_its_requests_asks_nothing_more_when_it_is_resumed(tmp_path):
    board, path = Noisy(0.05), tmp_path / "r"
    with pytest.warns(UserWarning, match="--requests 50"):
        first = search(board, requests=50, out=path)
    files = {file: file.read_bytes() for file in path.rglob("*.json")}
    asked = board.asked
    again = egrl.search(resume=path, evaluator=board)
    assert board.asked == asked <= 50
    assert again.summary == first.summary
    assert {file: file.read_bytes() for file in path.rglob("*.json")} == files
    np.testing.assert_array_equal(again.mapping, first.mapping)
    more = egrl.search(resume=path, evaluator=board, evals=first.summary["evaluations"] + 10)
    assert board.asked > asked
    assert more.summary["evaluations"] == first.summary["evaluations"] + 10
