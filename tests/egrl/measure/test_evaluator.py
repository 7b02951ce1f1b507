"""Runs that are measured by an evaluator: commands and functions, well-behaved and not."""

from __future__ import annotations

import csv
import hashlib
import json
import re
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from egrl import api
from egrl.cli.main import main
from egrl.core.archive import proposals
from egrl.core.contracts import GENERATION
from egrl.measure import records as measurements
from egrl.measure.board import BoardDied, BoardFailure
from egrl.measure.board_executor import BoardExecutor
from egrl.measure.config import EvaluatorConfig, name_of
from egrl.measure.evaluator import FunctionBoard
from egrl.measure.records import EvaluatorLog, Measurements, Record, digest
from egrl.report.page import page_of
from egrl.runs.past_run import PastRun
from egrl.runs.summary import sentence
from hwsim.mappings import sample_uniformly
from hwsim.problem import Status
from toys import ToyRagged
from workloads.errors import InputError, Notice, RunFailure

FAKE = str(Path(__file__).parents[2] / "fake_board.py")
NEVER = ("evaluator.timeout_s=86400", "evaluator.timeout_floor_s=86400", "evaluator.start_timeout_s=86400")
"""Nothing of what a busy machine holds up is a time-out."""
HASTY = (*NEVER, "evaluator.timeout_floor_s=0.5")
"""What takes long is, once the baseline is measured: boards that hang do so for an hour."""
QUICK = (*NEVER, "evaluator.repeats=3")
EXACT = (*NEVER, "evaluator.exact=true")


def fake(*words: object) -> str:
    return " ".join(map(str, (sys.executable, FAKE, *words)))


def run(out: Path, evaluator, **options):
    given = {"method": "random", "gens": 2, "out": out, "settings": QUICK, "evaluator": evaluator}
    return api.search(**({"workload": "alexnet"} | given | options))


def metrics(folder: Path) -> list[dict[str, str]]:
    with open(folder / "metrics.csv") as stream:
        return [{k: v for k, v in row.items() if not k.endswith("seconds")} for row in csv.DictReader(stream)]


def statuses(folder: Path) -> list[str]:
    lines = (folder / measurements.FILE).read_text().splitlines()
    return [json.loads(line)["status"] for line in lines]


def model(rows) -> float:
    """A function for `evaluator`: pure, and quick."""
    return 1e-3 * (2.0 - sum(row.get("activation") == "sram" for row in rows) / len(rows))


def slow_sram(rows) -> float:
    """Another one, for which the baseline is slow."""
    return 3e-3 - model(rows)


def odd(rows) -> bool:
    """What the fake board means by an odd mapping."""
    return int(hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest(), 16) % 3 == 0


# ---- what a run is


def test_costs_and_baseline_are_those_of_the_board(tmp_path):
    result = run(tmp_path / "r", fake("well"))
    best, baseline = result.summary["best"], result.summary["baseline"]
    assert 1e-3 <= best["cost"] <= 2e-3
    assert 1e-3 <= baseline["cost"] <= 2e-3
    assert best["speedup"] == baseline["cost"] / best["cost"]
    assert best["reward"] == best["speedup"] ** 2
    assert result.summary["bound"] is None
    assert result.summary["evaluator"]["requests"] >= 40
    assert set(statuses(tmp_path / "r")) == {"ok"}
    assert not (tmp_path / "r" / measurements.LOG).exists()


def test_a_function_measures_as_a_command_does(tmp_path):
    def like_the_board(rows):
        text = json.dumps(rows, sort_keys=True)
        places = [text.count(f'"{memory}"') for memory in ("dram", "llc", "sram")]
        return 1e-3 * (1.0 + (places[0] + 0.3 * places[1]) / max(1, sum(places)))

    run(tmp_path / "a", fake("well"))
    result = run(tmp_path / "b", like_the_board, workers=3)
    assert metrics(tmp_path / "a") == metrics(tmp_path / "b")
    assert result.summary["evaluator"]["command"].startswith("python:")


class Mute:
    """An answer that cannot even be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    "answer",
    [10**5000, [10**5000], {"latency_s": Mute()}, {"invalid": np.ones(2)}, {"error": Mute()}, "\ud800"],
    ids=["long", "long list", "mute", "array", "mute error", "text"],
)
def test_whatever_a_function_answers_is_a_failure_of_the_mapping(answer):
    board = FunctionBoard(lambda rows: answer)
    try:
        said = board.measure({"mapping": []}, 1.0).reason
    except BoardFailure as failure:
        said = str(failure)
    assert said
    assert said.isprintable()


def test_the_log_has_printable_lines_only(tmp_path):
    log = EvaluatorLog()
    log.attach(tmp_path)
    log("a\x1b[2J \ud800\nb")
    assert (tmp_path / measurements.LOG).read_text(encoding="utf-8") == "a\\x1b[2J \\ud800\\nb\n"


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ea", "annealing"])
def test_the_number_of_boards_changes_nothing(tmp_path, method):
    for workers in (1, 3):
        run(tmp_path / str(workers), model, method=method, workers=workers, gens=3)
    assert metrics(tmp_path / "1") == metrics(tmp_path / "3")


@pytest.mark.slow
def test_a_mapping_is_paid_for_once_even_across_resuming(tmp_path):
    asked: list[str] = []

    def counting(rows):
        asked.append(json.dumps(rows))
        return model(rows)

    run(tmp_path / "r", counting, method="ea", gens=3, workers=2, settings=EXACT)
    again = [entry for entry in set(asked) if asked.count(entry) > 1]
    assert len(again) == 1, "only the baseline is measured more than once"
    before = len(set(asked))
    result = api.search(resume=tmp_path / "r", gens=5, evaluator=counting, quiet=True)
    assert result.summary["evaluations"] == 5 * GENERATION
    assert [entry for entry in set(asked) if asked.count(entry) > 1] == again
    assert len(set(asked)) > before
    run(tmp_path / "whole", model, method="ea", gens=5, settings=EXACT)
    assert metrics(tmp_path / "whole") == metrics(tmp_path / "r")


def test_a_run_that_was_killed_while_boards_measured_goes_on_as_if_it_had_not_been(tmp_path):
    def dying(rows):
        if len(asked) == 40:
            raise KeyboardInterrupt
        asked.append(rows)
        return model(rows)

    asked: list[object] = []
    with pytest.raises(RunFailure, match="measuring failed: KeyboardInterrupt"):
        run(tmp_path / "r", dying, gens=4, workers=2, checkpoint_seconds=0.0, settings=EXACT)
    paid = len((tmp_path / "r" / measurements.FILE).read_text().splitlines())
    assert paid >= 30
    again: list[object] = []
    api.search(resume=tmp_path / "r", evaluator=lambda rows: again.append(rows) or model(rows))
    run(tmp_path / "whole", model, gens=4, settings=EXACT)
    assert metrics(tmp_path / "whole") == metrics(tmp_path / "r")
    # the baseline on each board, to see that it is the same
    assert len(again) <= 4 * GENERATION - (paid - 1) + 1 + 2 * 6


# ---- boards that misbehave


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("crash", "failed"),
        ("garbage", "failed"),
        pytest.param("half-line", "failed", marks=pytest.mark.exhaustive),
        ("nan", "failed"),
        ("negative", "failed"),
        ("error", "failed"),
        ("hang", "timeout"),
        ("invalid", "invalid"),
    ],
)
def test_a_mapping_that_a_board_cannot_measure_is_recorded_and_the_run_goes_on(tmp_path, mode, expected):
    settings = HASTY if mode == "hang" else QUICK
    result = run(tmp_path / "r", fake(mode), gens=1, workers=4, settings=settings)
    assert result.summary["evaluations"] == GENERATION
    assert set(statuses(tmp_path / "r")) == {"ok", expected}
    lines = (tmp_path / "r" / measurements.FILE).read_text().splitlines()
    records = [json.loads(line) for line in lines]
    reasons = {record["reason"] for record in records if record["status"] in ("failed", "timeout")}
    assert all(reasons)
    assert result.speedup > 0


def test_a_crash_that_does_not_happen_again_costs_no_mapping(tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_BOARD_FOLDER", str(tmp_path))
    result = run(tmp_path / "r", fake("crash-once"), gens=1, workers=2)
    run(tmp_path / "well", fake("well"), gens=1)
    assert set(statuses(tmp_path / "r")) == {"ok"}
    assert metrics(tmp_path / "r") == metrics(tmp_path / "well")
    assert result.summary["evaluator"]["restarts"] > 0
    assert "exited with code 1" in (tmp_path / "r" / measurements.LOG).read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("evaluator", "within_s", "message"),
    [
        (
            fake("exit-at-once"),
            43200,
            "the baseline cannot be measured: exited with code 3; last words: no such device",
        ),
        (fake("deaf"), 0.1, "the baseline cannot be measured: no answer within 0.2 s"),
    ],
)
def test_a_board_that_never_measures_ends_in_one_line(tmp_path, capsys, evaluator, within_s, message):
    argv = ["run", "--workload", "alexnet", "--method", "random", "--gens", "1", "--out", str(tmp_path / "r")]
    for key in ("timeout_s", "start_timeout_s"):
        argv += ["--set", f"evaluator.{key}={within_s}"]
    argv += ["--evaluator", evaluator]
    assert main(argv) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines()[-1].startswith("egrl: error: --evaluator: ")
    assert message in captured.err
    assert "Traceback" not in captured.err
    assert not (tmp_path / "r").exists()


@pytest.mark.slow
def test_boards_that_die_for_good_end_the_run_and_a_mended_one_goes_on_with_it(tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_BOARD_FOLDER", str(tmp_path))
    with pytest.raises(
        RunFailure, match="no longer measures the baseline, tried 1 times: exited with code 7"
    ):
        run(
            tmp_path / "r",
            fake("dies-after", 30),
            workers=2,
            settings=(*QUICK, "evaluator.restarts=1", "evaluator.retries=0"),
            checkpoint_seconds=0.0,
        )
    assert len(statuses(tmp_path / "r")) >= 20
    assert set(statuses(tmp_path / "r")) == {"ok"}
    with pytest.warns(Notice, match="taken for the same board"):
        api.search(resume=tmp_path / "r", evaluator=fake("well"))
    run(tmp_path / "whole", fake("well"))
    assert metrics(tmp_path / "whole") == metrics(tmp_path / "r")


def test_one_board_that_dies_leaves_its_work_to_the_others(tmp_path):
    calls: dict[int, int] = {}

    class Dying(FunctionBoard):
        def measure(self, request, timeout_s):
            calls[id(self)] = calls.get(id(self), 0) + 1
            if calls[id(self)] > 3 and self is second:
                raise BoardDied("pulled out")
            return super().measure(request, timeout_s)

    problem = ToyRagged()
    first, second = FunctionBoard(lambda rows: 1.0), Dying(lambda rows: 1.0)
    boards = BoardExecutor(
        problem, [first, second], EvaluatorConfig(restarts=1), Measurements(), EvaluatorLog()
    )
    try:
        boards.measure_baseline()
        keys = np.arange(60, dtype=np.uint64)
        mapping = sample_uniformly(problem, keys)
        boards.submit(proposals(mapping, "test").numbered(0), keys)
        rows = 0
        while rows < 60:
            rows += sum(len(part) for part, _ in boards.ready(0.5))
        assert rows == 60
    finally:
        boards.close()


# ---- noise


def test_a_lucky_measurement_does_not_name_the_best(tmp_path):
    rng = np.random.default_rng(0)
    lock = threading.Lock()

    def noisy(rows):
        with lock:
            return model(rows) * max(0.3, 1 + 0.2 * rng.standard_normal())

    result = run(tmp_path / "r", noisy, method="ea", gens=6, settings=("evaluator.rounds=30",))
    usage = result.summary["evaluator"]
    assert 0.05 < usage["noise"] < 0.5
    assert 1 < usage["contenders"] <= 10
    low, high = usage["speedup_interval"]
    assert low < result.speedup < high
    best = json.loads((tmp_path / "r" / "best_mapping.json").read_text())["mapping"]
    baseline = run(tmp_path / "quiet", model, gens=1).summary["baseline"]["cost"]
    assert result.speedup == pytest.approx(baseline / model(best), rel=0.15)


def test_a_board_whose_costs_are_exact_measures_each_mapping_once(tmp_path):
    result = run(tmp_path / "r", model, settings=EXACT)
    usage = result.summary["evaluator"]
    assert (usage["noise"], usage["contenders"], usage["speedup_interval"]) == (0, 0, None)
    assert usage["requests"] <= 2 * GENERATION + 6
    assert result.confirmed


def test_a_quiet_board_measures_its_best_again_and_confirms_it(tmp_path):
    result = run(tmp_path / "r", slow_sram)
    assert result.summary["evaluator"]["noise"] == 0
    assert result.confirmed
    assert result.interval == (result.speedup, result.speedup) != (1.0, 1.0)


class Odd:
    """A board with equal times for equal mappings but for one answer, which is a tenth of the truth."""

    def __init__(self, at: int) -> None:
        self.at, self.asked = at, 0

    def __call__(self, rows) -> float:
        self.asked += 1
        return model(rows) * (0.1 if self.asked == self.at else 1.0)


@pytest.mark.parametrize("at", [20, 41])
def test_one_odd_answer_does_not_win_where_the_baseline_has_no_spread(tmp_path, at):
    result = run(tmp_path / "r", Odd(at), method="random", gens=2)
    others = run(tmp_path / "well", model, method="random", gens=2)
    assert result.speedup == pytest.approx(others.speedup)
    assert result.confirmed
    assert result.interval == pytest.approx((result.speedup, result.speedup))


class Failing:
    """A noisy board that fails from the request number `first` on, `times` times."""

    def __init__(self, first: int, times: int) -> None:
        self.first, self.times, self.asked, self.rng = first, times, 0, np.random.default_rng(3)

    def __call__(self, rows):
        self.asked += 1
        if self.first <= self.asked < self.first + self.times:
            return {"error": "dma timeout"}
        return 1e-3 * float(np.exp(0.05 * self.rng.standard_normal()))


def failing(first: int, times: int, **options):
    with pytest.warns(UserWarning, match="--requests 50"):
        return api.search("alexnet", method="random", requests=50, evaluator=Failing(first, times), **options)


@pytest.mark.parametrize("first", [1, 3, 6, 39, 42, 44, 47, 49])
def test_a_failure_anywhere_leaves_no_lucky_number(first):
    """All mappings are equally fast: what is said is confirmed, and its interval holds 1."""
    result = failing(first, 2)
    assert result.confirmed
    low, high = result.interval
    assert low <= 1 <= high


def test_what_cannot_be_confirmed_is_said_not_to_be_until_the_run_goes_on(tmp_path):
    path, found = tmp_path / "r", failing(42, 1000, out=tmp_path / "r")
    assert not found.confirmed
    assert "not confirmed" in repr(found)
    assert "not confirmed" in found._repr_html_()
    first, *rest = sentence(found.summary, str(path)).splitlines()
    assert first.endswith(", not confirmed")
    assert any(line.startswith("not confirmed: ") and f"--resume {path}" in line for line in rest)
    assert any("keep the baseline's mapping" in line for line in rest)
    page = page_of([PastRun.read(path)])
    assert "(not confirmed)" in page
    again = api.search(resume=path, evaluator=Failing(0, 0))
    assert again.confirmed
    assert again.interval[0] <= 1 <= again.interval[1]
    assert ", not confirmed" not in sentence(again.summary, str(path))


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_a_board_that_becomes_slower_for_good_is_remarked_and_the_speedup_holds(tmp_path, noise):
    asked, rng = [], np.random.default_rng(5)

    def board(rows) -> float:
        asked.append(rows)
        slower = 1.15 if len(asked) > 40 else 1.0
        return slower * slow_sram(rows) * float(np.exp(noise * rng.standard_normal()))

    with pytest.warns(UserWarning, match="--requests 100"):
        result = api.search("alexnet", method="random", requests=100, evaluator=board, out=tmp_path / "r")
    assert result.summary["evaluator"]["drift"] == pytest.approx(0.15, abs=0.02)
    assert "the board has changed: the baseline took 1" in sentence(result.summary, "r")
    assert "The board has changed" in page_of([PastRun.read(tmp_path / "r")])
    true = slow_sram(asked[0]) / slow_sram(result.names)
    assert result.interval[0] * (1 - 1e-9) <= true <= result.interval[1] * (1 + 1e-9)
    assert result.interval[1] / result.interval[0] < 1.06


def test_of_mappings_that_are_level_the_one_with_the_fewest_changes_is_named():
    """All but the baseline are equally fast, up to a thousandth."""
    rng = np.random.default_rng(1)

    def board(rows) -> float:
        first.append(rows)
        return (1.0 if rows == first[0] else 0.8) * 1e-3 * float(np.exp(1e-3 * rng.standard_normal()))

    first: list[object] = []
    with pytest.warns(UserWarning, match="--requests 200"):
        result = api.search("alexnet", method="annealing", requests=200, evaluator=board)
    assert result.summary["evaluator"]["level"] > 0
    assert "not told apart from" in sentence(result.summary, "r")
    assert result.summary["evaluator"]["drift"] == 0


@pytest.mark.parametrize("seed", [0, 1])
def test_the_baseline_is_exactly_as_fast_as_itself(tmp_path, seed):
    rng, first = np.random.default_rng(seed), []

    def board(rows) -> float:
        first.append(rows)
        return (1.0 if rows == first[0] else 2.0) * 1e-3 * float(np.exp(0.02 * rng.standard_normal()))

    with pytest.warns(UserWarning, match="--requests 100"):
        result = api.search("alexnet", method="random", requests=100, seed=seed, evaluator=board)
    assert result.summary["best"]["is_baseline"]
    assert (result.speedup, result.interval, result.summary["best"]["reward"]) == (1.0, (1.0, 1.0), 1.0)
    text = sentence(result.summary, "r")
    assert ": as fast as the built-in" in text
    assert "the best mapping found is the baseline's own" in text


# ---- time-outs, the cache, arguments


@pytest.mark.slow
def test_a_mapping_far_slower_than_the_best_is_not_waited_for(tmp_path):
    """Else it would be for a day."""
    run(tmp_path / "r", fake("hang"), gens=1, workers=8, settings=HASTY)
    assert statuses(tmp_path / "r").count("timeout") > 2


def test_damaged_lines_of_the_cache_are_passed_over(tmp_path):
    kept = Measurements()
    kept.attach(tmp_path)
    kept.put("a", Record(Status.OK, (1.0, 2.0), request_s=0.5))
    kept.put("b", Record(Status.TIMEOUT, reason="slow"))
    kept.close()
    with open(tmp_path / measurements.FILE, "ab") as stream:
        stream.write(b'nonsense\n{"mapping": 3}\n{"mapping": "c", "status": "ok"')
    again = Measurements()
    again.attach(tmp_path)
    assert again.get("a") == Record(Status.OK, (1.0, 2.0), request_s=0.5)
    assert again.get("b") == Record(Status.TIMEOUT, reason="slow")
    assert len(again) == 2
    again.put("d", Record(Status.OK, (3.0,)))
    again.close()
    assert (tmp_path / measurements.FILE).read_bytes().endswith(b"\n")
    third = Measurements()
    third.attach(tmp_path)
    assert third.get("d") == Record(Status.OK, (3.0,))
    third.close()


def test_equal_mappings_have_equal_digests_whatever_their_layout():
    mapping = np.arange(12, dtype=np.int16).reshape(6, 2)
    assert digest(mapping) == digest(np.asfortranarray(mapping)) != digest(mapping + 1)


def test_a_run_keeps_to_its_kind_of_measuring(tmp_path):
    run(tmp_path / "board", model, gens=1)
    with pytest.raises(InputError, match=r"measured by a Python function: expected egrl\.search\(resume="):
        api.search(resume=tmp_path / "board", gens=2)
    api.search("alexnet", method="random", gens=1, out=tmp_path / "model")
    with pytest.raises(InputError, match="--evaluator: expected none: the model measured this run"):
        api.search(resume=tmp_path / "model", gens=2, evaluator="board")


@pytest.mark.parametrize(
    ("evaluator", "expected"),
    [
        ("'unclosed", "expected a command: No closing quotation"),
        (7, "expected a command or a function"),
        ("  ", "found an empty one"),
        ("", "found an empty one"),
        ("/no/such/board 3", "expected a command that can be started, found no such program: /no/such/board"),
        ("no-such-board", "expected a command that can be started, found no such program: no-such-board"),
        (str(Path(__file__)), f"found a file that cannot be run: {Path(__file__)}"),
    ],
)
def test_an_evaluator_that_is_none_is_refused_before_anything_is_made(tmp_path, evaluator, expected):
    with pytest.raises(InputError, match=expected):
        run(tmp_path / "r", evaluator)
    assert not (tmp_path / "r").exists()


def test_a_function_is_named_in_the_config_and_its_exceptions_fail_the_mapping(tmp_path):
    assert name_of(model) == f"python:{__name__}.model"

    def broken(rows):
        if odd(rows):
            raise ZeroDivisionError("oops")
        return {"latency_s": model(rows)}

    usage = run(tmp_path / "r", broken, gens=1).summary["evaluator"]
    assert usage["failures"] >= 3 * statuses(tmp_path / "r").count("failed") > 0
    assert "failed: ZeroDivisionError: oops" in (tmp_path / "r" / measurements.LOG).read_text()
    assert "ZeroDivisionError: oops" in (tmp_path / "r" / measurements.FILE).read_text()


@pytest.mark.slow
def test_the_examples_are_boards(tmp_path):
    examples = Path(__file__).parents[3] / "examples" / "board"
    result = run(tmp_path / "python", f"{sys.executable} {examples / 'board.py'}")
    assert 1e-3 <= result.summary["best"]["cost"] <= 2e-3
    tool = tmp_path / "tool"
    tool.write_text('#!/bin/sh\ngrep -q "activation" "$1" && echo 0.5\n')
    tool.chmod(0o755)
    result = run(tmp_path / "shell", f"sh {examples / 'board.sh'} {tool}", gens=1)
    assert result.summary["best"]["cost"] == 0.5
    assert set(statuses(tmp_path / "shell")) == {"ok"}
    tool.write_text("#!/bin/sh\nexit 3\n")
    with pytest.raises(RunFailure, match="cannot be measured: exit code 3"):
        run(tmp_path / "failing", f"sh {examples / 'board.sh'} {tool}")


def test_a_function_may_change_what_it_is_given(tmp_path):
    def emptying(rows):
        found = model(rows)
        rows.clear()
        return found

    run(tmp_path / "a", emptying)
    run(tmp_path / "b", model)
    assert metrics(tmp_path / "a") == metrics(tmp_path / "b")


def test_a_run_is_resumed_by_its_folder_alone(tmp_path):
    import egrl

    run(tmp_path / "r", model, gens=1)
    result = egrl.search(resume=tmp_path / "r", gens=2, evaluator=model)
    assert result.summary["generations"] == 2


def test_settings_of_an_evaluator_need_one(tmp_path):
    with pytest.raises(InputError, match=r"--set evaluator\.timeout_s: expected --evaluator, found none"):
        api.search("alexnet", gens=1, out=tmp_path / "r", settings=["evaluator.timeout_s=30"])


def test_failures_and_the_interval_are_said_at_the_end(tmp_path, capsys):
    argv = ["run", "--workload", "alexnet", "--method", "random", "--gens", "1", "--out", str(tmp_path / "r")]
    assert main([*argv, "--evaluator", fake("error")]) == 0
    assert re.search(r"\d+ requests of \d+ failed, after 0 of them", capsys.readouterr().err)
    result = run(tmp_path / "noisy", slow_sram)
    assert re.search(r", 95% interval \S+x to \S+x\n", sentence(result.summary, "r"))


@pytest.mark.slow
def test_after_the_seconds_no_measurement_starts_and_a_longer_run_is_the_same(tmp_path, monkeypatch):
    """Of a clock that each measurement moves by a second."""
    begun: list[float] = []
    monkeypatch.setattr("egrl.core.loop.clock", lambda: float(len(begun)))

    def board(rows: list[dict[str, str]]) -> float:
        begun.append(time.monotonic())
        return latency(rows)

    def latency(rows: list[dict[str, str]]) -> float:
        return 1e-3 / (1 + sum(row.get(head) == "sram" for row in rows for head in row))

    short = api.search(
        "alexnet", method="random", seconds=30.0, evaluator=board, workers=2, out=tmp_path / "a"
    )
    assert short.summary["complete"]
    assert short.summary["seconds"] >= 30.0
    longer = api.search(resume=tmp_path / "a", seconds=60.0, evaluator=board, workers=2)
    count = longer.summary["evaluations"]
    assert short.summary["evaluations"] < count
    # the baseline, again on each of two boards, and what was under way at both ends
    assert len(begun) <= count + 3 * 6 + 2 * 2
    api.search("alexnet", method="random", evals=count, evaluator=latency, out=tmp_path / "b")
    ran = [PastRun.read(tmp_path / name).evaluations().mapping for name in ("a", "b")]
    np.testing.assert_array_equal(*ran)
