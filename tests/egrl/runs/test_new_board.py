"""A record belongs to a board: what goes on is checked, and another board begins anew."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

import egrl
from egrl.cli.main import main
from egrl.measure.records import BOARD, FILE
from workloads.errors import InputError, Notice

QUIET = ["evaluator.repeats=1"]


class Board:
    """A board with noise, that may say who it is. On the other one fast memory is slow."""

    def __init__(self, factor: float = 1.0, name: str = "", noise: float = 0.0, other: bool = False) -> None:
        self.factor, self.name, self.noise, self.other = factor, name, noise, other
        self.rng, self.seconds = np.random.default_rng(0), []

    def __call__(self, rows):
        sram = sum(row.get("activation") == "sram" for row in rows) / len(rows)
        took = 1e-3 * self.factor * ((1.0 + sram) if self.other else (2.0 - sram))
        self.seconds.append(took * float(np.exp(self.noise * self.rng.standard_normal())))
        return {"latency_s": self.seconds[-1], **({"board": self.name} if self.name else {})}


def search(board: Board, **options) -> egrl.Result:
    given = {"method": "annealing", "evals": 30, "evaluator": board, "settings": QUIET}
    return egrl.search("alexnet", **(given | options))


@pytest.mark.parametrize("noise", [0.0, 0.02])
@pytest.mark.parametrize("change", [{"factor": 1.15}, {"factor": 3.0, "other": True}])
def test_another_board_is_refused_and_nothing_is_changed(tmp_path, noise, change):
    path = tmp_path / "r"
    search(Board(noise=noise), out=path)
    before = {
        file: file.read_bytes() for file in path.rglob("*.*") if file.suffix in (".json", ".toml", ".jsonl")
    }
    with pytest.raises(
        InputError, match=r"expected the board that measured before, found a baseline of .* us instead"
    ):
        egrl.search(resume=path, evals=60, evaluator=Board(noise=noise, **change))
    assert {file: file.read_bytes() for file in before} == before


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_the_same_board_goes_on_as_if_it_had_not_been_interrupted(tmp_path, noise):
    path, board = tmp_path / "r", Board(noise=noise)
    first = search(board, out=path)
    found = egrl.search(resume=path, evals=60, evaluator=board)
    assert found.summary["evaluations"] == 60
    assert found.history["best_speedup"][0] == first.history["best_speedup"][0]


def test_a_board_that_says_who_it_is_is_known_by_that(tmp_path):
    path = tmp_path / "r"
    search(Board(name="kite 3"), out=path)
    assert json.loads((path / BOARD).read_text())["boards"] == ["kite 3"]
    with pytest.raises(InputError, match="found kite 4 instead of kite 3"):
        egrl.search(resume=path, evals=60, evaluator=Board(name="kite 4"))
    assert egrl.search(resume=path, evals=60, evaluator=Board(name="kite 3")).summary["evaluations"] == 60


def test_a_new_board_begins_at_the_best_mapping_and_takes_no_old_number(tmp_path):
    path, other = tmp_path / "r", Board(factor=3.0, other=True)
    first = search(Board(), out=path)
    found = egrl.search(resume=path, evals=20, evaluator=other, new_board=True)
    assert found.summary["evaluations"] == 20
    assert found.summary["baseline"]["cost"] == pytest.approx(other.seconds[0])
    assert found.cost == pytest.approx(min(other.seconds))
    start = json.loads((path / "start_mapping.json").read_text())["mapping"]
    assert start == [dict(row) for row in first.names]
    assert (path / "before-1" / FILE).is_file()
    again = egrl.search(resume=path, evals=30, evaluator=other)
    assert again.summary["evaluations"] == 30
    third = egrl.search(resume=path, evals=5, evaluator=Board(factor=9.0), new_board=True)
    assert third.summary["evaluations"] == 5
    assert (path / "before-2" / FILE).is_file()


def test_a_new_board_is_one_of_a_run_that_a_board_measured(tmp_path, capsys):
    assert main(["run", "--workload", "alexnet", "--new-board"]) == 2
    assert "--new-board: expected --resume RUN, found none" in capsys.readouterr().err
    egrl.search("alexnet", method="random", evals=5, out=tmp_path / "r")
    assert main(["run", "--resume", str(tmp_path / "r"), "--new-board"]) == 2
    assert "found one that the model measured" in capsys.readouterr().err


def test_a_damaged_record_of_the_board_is_one_line(tmp_path):
    path = tmp_path / "r"
    search(Board(), out=path)
    (path / BOARD).write_text('{"kind": "board", "version": 1, "command": 3, "boards": []}')
    with pytest.raises(InputError, match=r"board\.json"):
        egrl.search(resume=path, evals=60, evaluator=Board())


def test_a_run_goes_on_with_more_requests(tmp_path):
    path, board = tmp_path / "r", Board(noise=0.02)
    with pytest.warns(UserWarning, match="--requests 50: 33 evaluations"):
        egrl.search("alexnet", method="annealing", requests=50, evaluator=board, out=path)
    with pytest.warns(UserWarning, match="--requests 100: 71 evaluations"):
        found = egrl.search(resume=path, requests=100, evaluator=board)
    assert found.summary["evaluations"] == 71
    assert "comparisons = 7" in (path / "config.toml").read_text()


@pytest.mark.parametrize(
    ("first", "requests", "expected"),
    [
        ({"requests": 100}, 50, "whose budget is 71 evaluations; found --requests 50, which are 33"),
        ({"gens": 2}, 100, "--gens of at least 2; found --requests 100"),
        ({"evals": 30}, 3, "--requests: expected more than"),
        ({"evals": 30, "evaluator": None}, 100, "a budget for the model, which measured this run"),
    ],
)
@pytest.mark.filterwarnings("ignore:--requests")
def test_requests_that_cannot_be_are_refused(tmp_path, first, requests, expected):
    board, path = Board(), tmp_path / "r"
    given = {"method": "annealing", "evaluator": board, "out": path} | first
    if "requests" not in first and given["evaluator"]:
        given["settings"] = QUIET
    egrl.search("alexnet", **given)
    evaluator = {} if "evaluator" in first else {"evaluator": board}
    with pytest.raises(InputError, match=expected):
        egrl.search(resume=path, requests=requests, **evaluator)


def test_the_command_line_goes_on_with_requests(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "board.py").write_text(
        "import json, sys\nfor line in sys.stdin:\n    q = json.loads(line)\n"
        "    print(json.dumps({'id': q['id'], 'latency_s': float(sys.argv[1])}), flush=True)\n"
    )
    board = ["--evaluator", f"{sys.executable} board.py"]
    run = ["run", "--workload", "alexnet", "--method", "random", "--requests", "20", "--out", "r"]
    assert main([*run, board[0], f"{board[1]} 1e-3"]) == 0
    assert main(["run", "--resume", "r", "--requests", "40", board[0], f"{board[1]} 2e-3"]) == 2
    assert "--new-board drops" in capsys.readouterr().err
    assert main(["run", "--resume", "r", "--requests", "40", board[0], f"{board[1]} 1e-3"]) == 0
    assert "25 evaluations" in capsys.readouterr().out


def test_a_search_that_goes_on_asks_for_the_baseline_first_and_refuses_another_board(tmp_path):
    path, board = tmp_path / "r", Board()
    search(board, out=path)
    for given in ("same", "other"):
        measure = board if given == "same" else Board(factor=3.0, other=True)
        with egrl.Search(resume=path) as going:
            batch = going.ask()
            baseline = going.problem.evaluate(going.problem.baseline.mapping[None], np.zeros(1, np.uint64))
            np.testing.assert_array_equal(batch.mapping, baseline.repaired)
            before = going.evaluations
            if given == "other":
                with pytest.raises(
                    InputError, match=r"expected the board that measured before, received .* us for the"
                ):
                    going.tell(batch, [measure(names)["latency_s"] for names in batch.names])
                continue
            going.tell(batch, [float("nan")])
            batch = going.ask()
            going.tell(batch, [measure(names)["latency_s"] for names in batch.names])
            assert going.evaluations == before, "it is no evaluation"
            batch = going.ask(limit=2)
            going.tell(batch, [measure(names)["latency_s"] for names in batch.names])
            assert going.evaluations == before + len(batch)


BOARD_SCRIPT = """import json, sys
for line in sys.stdin:
    request = json.loads(line)
    sram = sum(row.get("activation") == "sram" for row in request["mapping"]) / len(request["mapping"])
    print(json.dumps({"id": request["id"], "latency_s": float(sys.argv[1]) * (2.0 - sram)}), flush=True)
"""


@pytest.mark.slow
def test_another_command_with_the_same_baseline_is_said(tmp_path):
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text(BOARD_SCRIPT)
    first, second = (f"{sys.executable} {tmp_path / name} 0.001" for name in ("one.py", "two.py"))
    search(first, out=tmp_path / "r")
    with pytest.warns(
        UserWarning, match=r"two.py .* measures the baseline as .*one.py .* did: taken for the"
    ):
        found = egrl.search(resume=tmp_path / "r", evals=40, evaluator=second)
    assert found.summary["evaluations"] == 40


class Two:
    """Two boards behind one function, by the thread that asks; the second is slower."""

    def __init__(self, slower: float) -> None:
        self.slower, self.threads = slower, {}

    def __call__(self, rows):
        return {"latency_s": 1e-3 * (self.slower if self.turn() else 1.0)}

    def turn(self) -> bool:
        self.threads["asked"] = self.threads.get("asked", 0) + 1
        return self.threads["asked"] > 5


def test_every_board_of_a_run_that_goes_on_is_checked(tmp_path):
    path = tmp_path / "r"
    search(lambda rows: {"latency_s": 1e-3}, out=path)
    with pytest.raises(
        InputError, match=r"expected the board that measured before, found a baseline of 1500\.0 us"
    ):
        egrl.search(resume=path, evals=40, evaluator=Two(1.5), workers=2)


class Exchanged(Board):
    """Exchanged for another one while it measures."""

    def __call__(self, rows):
        self.name = "kite 3" if len(self.seconds) < 15 else "kite 4"
        return super().__call__(rows)


def test_a_board_that_becomes_another_while_it_measures_is_said():
    with pytest.warns(Notice, match="calls itself 'kite 4', before 'kite 3': boards may differ") as said:
        search(Exchanged())
    assert len(said) == 1
