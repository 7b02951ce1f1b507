"""A mapping that raises, kills its process or has an impossible cost has failed; the run and its other rows go on."""

from __future__ import annotations

import json
import os
import pickle
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from egrl.cli.main import main
from egrl.core.archive import proposals
from egrl.measure import local
from egrl.measure.apart import sheltered
from egrl.measure.attempt import attempted
from hwsim.mappings import sample_uniformly
from hwsim.problem import Status
from toys import ToyRagged
from workloads.errors import Notice, RunFailure

ROWS = 8


class Bad(ToyRagged):
    """A problem of which mappings go wrong that begin with the highest choice."""

    how = "raise"

    def bad(self, mapping):
        return mapping[:, 0, 0] == self.space.num_choices[0, 0] - 1

    def evaluate(self, mapping, key):
        bad = self.bad(mapping)
        if self.how == "raise" and bad.any():
            raise ZeroDivisionError("no such mode")
        if self.how == "kill" and bad.any():
            os.kill(os.getpid(), signal.SIGKILL)
        found = super().evaluate(mapping, key)
        cost = {"nan": np.nan, "negative": -1.0, "zero": 0.0, "infinite": np.inf}.get(self.how)
        return found if cost is None else replace(found, cost=np.where(bad, cost, found.cost))


class Killing(Bad):
    how = "kill"


def rows(problem: Bad, first: int = 0):
    """Proposals of which the first is good and some are bad, and their keys."""
    keys = np.arange(100, dtype=np.uint64)
    drawn = sample_uniformly(problem, keys)
    bad = problem.bad(drawn)
    mapping = np.concatenate([drawn[~bad][: ROWS // 2], drawn[bad][: ROWS // 2]])
    return proposals(mapping, "test").numbered(first), keys[:ROWS]


def check(problem: Bad, evaluation) -> None:
    good = np.arange(ROWS) < ROWS // 2
    assert (evaluation.status == np.where(good, Status.OK, Status.FAILED)).all()
    expected = ToyRagged().evaluate(evaluation.repaired, np.arange(ROWS, dtype=np.uint64))
    np.testing.assert_array_equal(evaluation.cost[good], expected.cost[good])
    assert np.isnan(evaluation.reward[~good]).all()
    assert (evaluation.speedup[~good] == 0).all()


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("raise", r"ZeroDivisionError: no such mode \(test_attempt\.py, line \d+\)"),
        ("nan", "a finite cost above 0, found nan"),
        ("negative", "found -1"),
        ("zero", "found 0"),
        ("infinite", "found inf"),
    ],
)
def test_a_mapping_that_goes_wrong_has_failed_and_its_batch_has_not(how, reason):
    problem = Bad()
    problem.how = how
    executor = local.build([problem], 1)
    with pytest.warns(Notice, match=f"a mapping failed .* the run goes on: .*{reason}"):
        executor.submit(*rows(problem))
    executor.submit(*rows(problem, ROWS))  # said once
    for _, evaluation in executor.ready(0.0):
        check(problem, evaluation)


def test_what_the_first_mapping_of_a_run_raises_is_the_users_to_see():
    problem = Bad()
    asked, keys = rows(problem)
    turned = np.arange(ROWS)[::-1]
    with pytest.raises(ZeroDivisionError):
        local.build([problem], 1).submit(proposals(asked.mapping[turned], "test").numbered(0), keys)


def test_a_failing_disk_is_no_failing_mapping():
    problem = ToyRagged()

    def full(mapping, key):
        raise RunFailure("no space left")

    problem.evaluate = full
    with pytest.raises(RunFailure, match="no space left"):
        attempted(problem, *rows(Bad())[0:1][0].mapping[None, :2], np.zeros(2, np.uint64))


@pytest.mark.slow
def test_a_mapping_that_kills_its_process_has_failed_and_is_not_tried_again():
    problem = Killing()
    apart = sheltered(problem)
    asked, keys = rows(problem)
    with pytest.warns(Notice, match="it ended the process that measured it, which was killed by signal 9"):
        check(problem, apart.evaluate(asked.mapping, keys))
    check(problem, apart.evaluate(asked.mapping, keys))
    assert isinstance(apart, Killing)
    assert type(pickle.loads(pickle.dumps(apart))) is Killing


def collected(pool) -> list:
    found: list = []
    while sum(len(part) for part, _ in found) < ROWS:
        found += pool.ready(1.0)
    return found


@pytest.mark.slow
def test_a_pool_finds_the_mappings_that_kill_its_workers():
    problem = Killing()
    pool = local.build([problem], 2)
    try:
        pool.submit(*rows(problem))
        with pytest.warns(Notice, match="it ended the process"):
            found = collected(pool)
        found.sort(key=lambda pair: pair[0].tickets[0])
        status = np.concatenate([evaluation.status for _, evaluation in found])
        assert (status == np.repeat([Status.OK, Status.FAILED], ROWS // 2)).all()
    finally:
        pool.close()


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", pytest.param("2", marks=pytest.mark.exhaustive)])
def test_a_run_of_a_problem_that_kills_goes_on_to_its_end(tmp_path, monkeypatch, capsys, workers):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    example = Path(__file__).parents[3] / "examples" / "plugin" / "egrl_balance" / "balance.py"
    (tmp_path / "balance_to_kill.py").write_text(
        example.read_text() + f"\n\nimport os\n\nHERE = {os.getpid()}\n\n\nclass Deadly(Balance):\n"
        "    def evaluate(self, mapping, key):\n"
        "        if (mapping[:, :2, 0] == 3).all(axis=1).any():\n"
        "            assert os.getpid() != HERE\n"
        "            os.kill(os.getpid(), 9)\n"
        "        return super().evaluate(mapping, key)\n"
    )
    argv = ["run", "--problem", "balance_to_kill:Deadly", "--workload", "12", "--method", "random"]
    assert main([*argv, "--evals", "63", "--workers", workers, "--out", "r"]) == 0
    captured = capsys.readouterr()
    assert captured.err.count("a mapping failed and counts as an evaluation") == 1
    assert "63 evaluations" in captured.out
    status = np.concatenate([np.load(path)["speedup"] for path in sorted(Path("r/mappings").glob("*.npz"))])
    assert 0 < (status == 0).sum() < 63
    again = ["run", "--resume", "r", "--problem", "balance_to_kill:Deadly", "--workers", workers]
    assert main([*again, "--evals", "84"]) == 0
    of = ["--problem", "balance_to_kill:Deadly"]
    assert main(["evaluate", "r", *of]) == 0
    names = json.loads(Path("r/best_mapping.json").read_text())
    names["mapping"][0]["core"] = names["mapping"][1]["core"] = "core3"
    Path("deadly.json").write_text(json.dumps(names))
    capsys.readouterr()
    for argv in (["evaluate", "r", *of], ["evaluate", "--workload", "12", *of]):
        assert main([*argv, "--mapping", "deadly.json", "--json"]) == 0
        captured = capsys.readouterr()
        assert json.loads(captured.out)["status"] == "failed"
        assert "it ended the process that measured it" in captured.err
        assert main([*argv, "--mapping", "deadly.json"]) == 0
        assert "failed" in capsys.readouterr().out
    assert main(["report", "r", *of, "-o", "r.html"]) == 0
