"""A board behind a script: real processes that behave, and real ones that do not."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from clocks import Waiting
from hypothesis import given
from hypothesis import strategies as st

from egrl.measure import board_process
from egrl.measure.board import Answer, BoardDied, BoardFailure, BoardSilent, answer_of, parse_answer
from egrl.measure.board_process import BoardProcess
from hwsim.problem import Status
from workloads.errors import Notice

FAKE = str(Path(__file__).parents[2] / "fake_board.py")
ID = """id=$(printf '%s' "$line" | sed 's/^{"id": \\([0-9]*\\),.*/\\1/')"""
"""In sh: the id of the request in `line`."""
ANSWER = "read -r line; " + ID + """; echo "{\\"id\\": $id, \\"latency_s\\": 1}"; """
"""In sh: read a request and answer it."""
LONG_S = 86400.0
"""A limit that nothing reaches: what hangs is ended by pytest."""
REQUEST = {"problem": "p", "workload": "w", "chip": "c", "mapping": [{"node": "n", "weight": "dram"}]}


@pytest.fixture
def board(request):
    made = BoardProcess([sys.executable, FAKE, *request.param.split()], start_timeout_s=LONG_S)
    yield made
    made.close()


@pytest.fixture
def patient(monkeypatch):
    """A board that ends by itself is waited for, however busy the machine is."""
    monkeypatch.setattr(board_process, "GRACE_S", LONG_S)


def limit_begins(monkeypatch, happened) -> None:
    """The time of a request counts from when something has happened."""
    monkeypatch.setattr(board_process, "time", Waiting(happened))


def modes(*names: str):
    return pytest.mark.parametrize("board", names, indirect=True)


@modes("well", "out-of-order", "duplicates", "megabyte", "talks-first", "slow-start 1")
def test_it_finds_the_answer_among_whatever_else_a_board_says(board):
    for _ in range(3):
        assert board.measure(REQUEST, LONG_S) == Answer(Status.OK, (0.002,))


@modes("samples")
def test_a_board_may_measure_several_times(board):
    assert board.measure(REQUEST, LONG_S).samples_s == pytest.approx((0.00198, 0.002, 0.003))


@modes("exit-at-once")
def test_a_board_that_ends_is_quoted_by_its_exit_code_and_last_words(patient, board):
    with pytest.raises(BoardDied, match="exited with code 3; last words: no such device"):
        board.measure(REQUEST, LONG_S)


@modes("deaf")
def test_a_board_that_says_nothing_is_ended_after_its_time(board):
    board = BoardProcess([sys.executable, FAKE, "deaf"])
    begun = time.monotonic()
    with pytest.raises(BoardSilent, match=r"no answer within 0\.3 s"):
        board.measure(REQUEST, 0.3)
    assert time.monotonic() - begun < 60  # 200 times its time; the board sleeps an hour
    assert board._process is None


def test_a_board_that_answers_otherwise_is_quoted(monkeypatch):
    board = BoardProcess(["sh", "-c", "printf 'board> ready'; sleep 86400"])
    limit_begins(monkeypatch, lambda: bool(board._output.tail))
    with pytest.raises(BoardSilent, match=r"no answer within 0\.5 s; it said: board> ready"):
        board.measure(REQUEST, 0.5)


def test_a_board_that_does_not_read_cannot_hold_up_a_long_request():
    board = BoardProcess(["sleep", "86400"])
    long = {**REQUEST, "mapping": [{"node": "n" * 100, "weight": "dram"}] * 10_000}
    with pytest.raises(BoardSilent):
        board.measure(long, 0.3)


@pytest.mark.slow
@pytest.mark.parametrize("leaves", ["", "setsid ", "setsid nohup "])
def test_what_a_board_has_started_ends_with_it(tmp_path, monkeypatch, leaves):
    """Also what has left its process group, or was left behind by its parent."""
    script = f"{leaves}sleep 86400 & echo $! > {tmp_path}/pid; read line; sleep 86400"
    board = BoardProcess(["sh", "-c", script])
    pid = tmp_path / "pid"
    limit_begins(monkeypatch, lambda: pid.exists() and pid.read_text().endswith("\n"))
    with pytest.raises(BoardSilent):
        board.measure(REQUEST, 0.5)
    child = int(pid.read_text())
    while _runs(child):
        time.sleep(0.02)


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def test_a_board_is_started_once_and_again_after_it_ended(patient, tmp_path):
    script = tmp_path / "board.py"
    script.write_text(
        "import os, sys, json\n"
        "for line in sys.stdin:\n"
        "    number = json.loads(line)['id']\n"
        "    if json.loads(line)['last']: os._exit(1)\n"
        "    print(json.dumps({'id': number, 'latency_s': os.getpid()}), flush=True)\n"
    )
    board = BoardProcess([sys.executable, str(script)])
    try:
        go_on, end = {**REQUEST, "last": False}, {**REQUEST, "last": True}
        first, second = board.measure(go_on, LONG_S), board.measure(go_on, LONG_S)
        assert first == second
        with pytest.raises(BoardDied, match="exited with code 1"):
            board.measure(end, LONG_S)
        assert board.measure(go_on, LONG_S).samples_s != first.samples_s
    finally:
        board.close()


def test_closing_gives_a_board_the_time_to_end_and_interrupts_one_that_measures(patient, tmp_path):
    script = f"while read line; do :; done; echo bye > {tmp_path}/bye"
    board = BoardProcess(["sh", "-c", ANSWER + script])
    board.measure(REQUEST, LONG_S)
    board.close()
    assert (tmp_path / "bye").read_text() == "bye\n"
    hanging = BoardProcess(["sleep", "86400"])
    raised: list[BaseException] = []

    def measure() -> None:
        try:
            hanging.measure(REQUEST, LONG_S)
        except BoardFailure as error:
            raised.append(error)

    thread = threading.Thread(target=measure)
    thread.start()
    while hanging._process is None:
        time.sleep(0.01)
    hanging.close()
    thread.join()
    assert isinstance(raised[0], BoardDied)


def test_a_command_that_cannot_be_started_is_named(tmp_path):
    plain = tmp_path / "not-executable"
    plain.write_text("echo")
    for command, reason in (
        (str(plain), "Permission denied"),
        ("/no/such/board", "No such file or directory"),
    ):
        with pytest.raises(BoardDied, match=f"cannot be started: {command}: {reason}"):
            BoardProcess([command]).measure(REQUEST, 1.0)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"latency_s": 0.5}, Answer(Status.OK, (0.5,))),
        ({"latency_s": [1, 2.5]}, Answer(Status.OK, (1.0, 2.5))),
        ({"error": "no\n memory"}, Answer(Status.FAILED, reason="no memory")),
        ({"invalid": True, "epsilon": 0.5}, Answer(Status.INVALID, epsilon=0.5)),
    ],
)
def test_answers_of_every_kind(answer, expected):
    assert answer_of(answer) == expected
    assert parse_answer(json.dumps({"id": 3, **answer}), 3) == expected
    assert parse_answer(json.dumps({"id": 4, **answer}), 3) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"latency_s": None},
        {"latency_s": "1"},
        {"latency_s": True},
        {"latency_s": 0},
        {"latency_s": -1},
        {"latency_s": float("nan")},
        {"latency_s": float("inf")},
        {"latency_s": 10**400},
        {"latency_s": 5e-324},
        {"latency_s": 1e9},
        {"latency_s": []},
        {"latency_s": [1, None]},
        {"invalid": True},
        {"invalid": True, "epsilon": 2},
        {"invalid": True, "epsilon": float("nan")},
    ],
)
def test_an_answer_that_says_nothing_usable_is_a_failure_that_quotes_it(wrong):
    with pytest.raises(BoardFailure, match=r"expected .*, found "):
        answer_of({"id": 1, **wrong})


@pytest.mark.slow
@given(st.text() | st.recursive(st.none() | st.booleans() | st.integers(), st.lists).map(json.dumps))
def test_a_line_that_is_no_answer_is_noise(line):
    assert parse_answer(line, 1) is None


def test_an_id_is_a_number_and_nothing_like_it():
    for number in ("true", "1.0", '"1"', "null", "[1]"):
        assert parse_answer(f'{{"id": {number}, "latency_s": 1}}', 1) is None


@pytest.mark.slow
@pytest.mark.parametrize("line", ["0.0012", '{"latency_s": 0.0012}', '{"error": "too hot"}'])
def test_what_was_meant_as_a_first_answer_is_refused_at_once(line):
    board = BoardProcess(["sh", "-c", f"read request; echo '{line}'; sleep 86400"], start_timeout_s=LONG_S)
    with pytest.raises(
        BoardFailure, match=r'such as {"id": ID, "latency_s": 0\.001}, found ' + re.escape(line)
    ):
        board.measure(REQUEST, LONG_S)
    board.close()


def test_numbers_are_noise_once_a_board_has_answered():
    script = ANSWER + "read -r line; echo 7; " + ID + """; echo "{\\"id\\": $id, \\"latency_s\\": 2}" """
    board = BoardProcess(["sh", "-c", script], start_timeout_s=LONG_S)
    assert [board.measure(REQUEST, LONG_S).samples_s for _ in range(2)] == [(1.0,), (2.0,)]
    board.close()


def test_what_a_board_says_instead_of_a_first_answer_is_shown_while_it_is_waited_for(tmp_path, monkeypatch):
    """However late it speaks; this one answers as soon as it was quoted."""
    shown = []

    def warn(message, category, stacklevel):
        shown.append((category, message))
        (tmp_path / "quoted").touch()

    monkeypatch.setattr(board_process, "QUOTED_AFTER_S", 0.05)
    monkeypatch.setattr("warnings.warn", warn)
    waits = f"while ! test -e {tmp_path}/quoted; do sleep 0.02; done; "
    board = BoardProcess(["sh", "-c", "sleep 0.25; echo hello; " + waits + ANSWER])
    assert board.measure(REQUEST, LONG_S) == Answer(Status.OK, (1.0,))
    ((category, message),) = shown
    assert category is Notice
    assert re.search(r"no answer such as .* waiting up to \d+ s more; it said: hello", message)
    board.close()


@pytest.mark.exhaustive
def test_a_board_that_floods_its_stdout_is_ended_after_its_time_and_takes_no_memory(monkeypatch):
    board = BoardProcess(["sh", "-c", """read line; exec yes '{"id": -1, "latency_s": 1e-3}'"""])
    limit_begins(monkeypatch, lambda: bool(board._output.tail))
    begun = time.monotonic()
    with pytest.raises(BoardSilent, match="no answer within 1 s; it said: "):
        board.measure(REQUEST, 1.0)
    assert time.monotonic() - begun < 100  # a hundred times its time; it never ends by itself
    assert len(board._output.tail) <= board_process.TAIL_BYTES


def test_a_line_without_end_is_not_kept_and_what_follows_is_understood(monkeypatch):
    monkeypatch.setattr(board_process, "LONGEST_LINE", 100_000)
    script = "head -c 1000000 /dev/zero | tr '\\0' 1; echo; "
    board = BoardProcess(["sh", "-c", script + ANSWER], start_timeout_s=LONG_S)
    assert board.measure(REQUEST, LONG_S).samples_s == (1.0,)
    board.close()


def test_answers_that_were_printed_before_their_request_do_not_count():
    board = BoardProcess(
        [
            "sh",
            "-c",
            """for i in $(seq 0 99); do echo "{\\"id\\": $i, \\"latency_s\\": 1e-9}"; done; """ + ANSWER * 3,
        ],
        start_timeout_s=LONG_S,
    )
    assert [board.measure(REQUEST, LONG_S).samples_s for _ in range(3)] == [(1.0,)] * 3
    board.close()


def test_an_id_is_never_used_twice(tmp_path):
    board = BoardProcess(["sh", "-c", f"{ANSWER * 8} cat > {tmp_path}/rest"], start_timeout_s=LONG_S)
    numbers = []
    parse = board_process.parse_answer
    for _ in range(8):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(board_process, "parse_answer", lambda *a: (numbers.append(a[1]), parse(*a))[1])
            board.measure(REQUEST, LONG_S)
    board.close()
    assert len(set(numbers)) == 8
    assert all(2**52 <= number < 2**53 for number in numbers)


@pytest.mark.parametrize(
    "error", [r'"\ud800"', r'"tab\tand\u0000 \u001b[2J \u009b31m more"', r'[{"\ud800": "\u001b"}]']
)
def test_whatever_an_error_says_can_be_printed(error):
    answer = parse_answer(f'{{"id": 1, "error": {error}}}', 1)
    assert answer is not None
    assert answer.status == Status.FAILED
    assert answer.reason.isprintable()


@pytest.mark.parametrize(
    "says",
    [
        "answer['error'] = f'cannot load {number}'",
        "answer['verdict'] = number",
        "answer['latency_s'], answer['id'] = 1, str(number)",
        "sys.exit(f'no mapping {number}')",
        "answer['error'] = 'x' * 110 + f' {number}'",
        "answer['error'] = ' ' * 65530 + f'{number}'",
        "sys.exit('x' * 110 + f' {number}')",
        "print('{\"id\": ' + str(number)[:7], end='', flush=True); input()",
        "sys.exit(str(number) + 'x' * 4090 + ' ID')",
    ],
)
def test_what_is_recorded_is_the_same_in_every_run(patient, tmp_path, monkeypatch, says):
    """Ids are drawn at random: no message has one."""
    script = tmp_path / "board.py"
    script.write_text(
        "import json, sys\nfor line in sys.stdin:\n    number = json.loads(line)['id']\n"
        f"    answer = {{'id': number}}\n    {says}\n    print(json.dumps(answer), flush=True)\n"
    )
    board = BoardProcess([sys.executable, str(script)])
    limit_begins(monkeypatch, lambda: bool(board._output.tail))
    try:
        said = board.measure(REQUEST, 0.5).reason
    except BoardFailure as error:
        said = str(error)
    board.close()
    assert re.search(r"\bID\b|x{110}", said)
    assert not re.search(r"\d{3}", said)


def test_the_answer_to_an_earlier_request_is_not_quoted(patient, tmp_path):
    script = tmp_path / "board.py"
    script.write_text(
        "import json\nanswer = {'id': json.loads(input())['id'], 'latency_s': 1}\n"
        "print(json.dumps(answer), flush=True)\ninput()\n"
    )
    board = BoardProcess([sys.executable, str(script)])
    board.measure(REQUEST, LONG_S)
    with pytest.raises(BoardDied, match=r"^exited with code 0$"):
        board.measure(REQUEST, LONG_S)


@pytest.mark.slow
def test_processes_that_come_and_go_never_take_each_others_output():
    """Eight boards at once, each killed after its answer, so that numbers of pipes are used again at once."""

    def ask(_: int) -> int:
        answers = 0
        for _ in range(15):
            board = BoardProcess(["sh", "-c", "echo noise; " + ANSWER + "sleep 86400"])
            answers += board.measure(REQUEST, LONG_S).samples_s == (1.0,)
            board._kill()
        return answers

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(ask, range(8))) == 120


def test_last_words_on_stdout_are_quoted_where_stderr_has_none(patient):
    with pytest.raises(BoardDied, match="exited with code 0; it said: hello"):
        BoardProcess(["echo", "hello"]).measure(REQUEST, LONG_S)


def test_the_tests_board_is_where_it_is_looked_for():
    assert os.path.exists(FAKE)
