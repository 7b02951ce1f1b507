"""Error lines stay readable, whatever is handed in."""

from __future__ import annotations

import json

import pytest

from egrl.cli.main import main
from egrl.cli.output import LONGEST_LINE

LONG = "a" * 5000


def refusal(argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(argv) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("egrl: error: ")
    assert captured.err.count("\n") == 1
    assert len(captured.err) <= LONGEST_LINE + len("egrl: error: \n")
    return str(captured.err)


@pytest.mark.parametrize(
    "argv",
    [
        ["evaluate", "--workload", LONG],
        ["evaluate", "--workload", " ".join(LONG)],
        ["evaluate", "--workload", "/" + "/".join(["a" * 200] * 30)],
        ["evaluate", "--workload", "bert:" + LONG],
        ["evaluate", "--workload", "bert:layers=" + "1" * 5000],
        ["evaluate", "--workload", "bert", "--chip", LONG],
        ["run", "--workload", "bert", "--method", LONG],
        ["run", "--workload", "bert", "--set", LONG],
        ["run", "--workload", "bert", "--set", "method." + LONG + "=1"],
        ["run", "--workload", "bert", "--gens", "9" * 5000],
        ["plot", LONG, "runs"],
        [LONG],
        ["run", "--" + LONG],
    ],
    ids=lambda argv: " ".join(argv)[:30],
)
def test_a_long_argument_makes_no_long_line(argv, capsys):
    assert "a" * 301 not in refusal(argv, capsys)


@pytest.mark.parametrize("field", ["name", "kind", "ops", LONG])
def test_a_long_value_in_a_file_makes_no_long_line(field, tmp_path, capsys):
    file = tmp_path / "net.json"
    file.write_text(json.dumps({"kind": "workload", "version": 1, "name": "net", "ops": [], field: LONG}))
    assert "net.json" in refusal(["evaluate", "--workload", str(file)], capsys)


def test_what_comes_last_is_kept(capsys):
    message = refusal(["evaluate", "--workload", LONG], capsys)
    assert "egrl list workloads" in message
