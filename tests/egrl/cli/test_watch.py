"""egrl watch: what it says of runs that search, are done, or have just begun."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

from commands import refuse

from egrl.cli.main import main


def said(capsys, *runs: Path, flags: tuple[str, ...] = ("--once",)) -> list[str]:
    capsys.readouterr()
    assert main(["watch", *map(str, runs), *flags]) == 0
    return capsys.readouterr().out.splitlines()


def test_a_run_is_told_while_it_searches_and_when_it_is_done(tmp_path, capsys):
    run = tmp_path / "r"
    argv = [
        "run",
        "--workload",
        "resnet50",
        "--method",
        "annealing",
        "--gens",
        "2",
        "--quiet",
        "--out",
        str(run),
    ]
    assert main(argv) == 0
    with open(run / "metrics.csv", newline="") as stream:
        best = float(list(csv.DictReader(stream))[-1]["best_speedup"])
    head, row = said(capsys, run)
    assert head.split()[:3] == ["run", "evaluations", "best"]
    assert row.split()[:3] == ["r", "42", f"{best:.4f}x"]
    assert row.endswith("finished")
    assert 1 < float(row.split()[3].removesuffix("x")) < 1.02  # the bound that ships
    assert len(said(capsys, run, flags=())) == 2  # all are finished: it ends by itself
    (run / "summary.json").unlink()
    text = (run / "metrics.csv").read_text()
    (run / "metrics.csv").write_text(text + "3,63,0.5")  # a row that is being written
    row = said(capsys, run)[1]
    assert row.split()[1] == "42"
    assert "since the last generation" in row
    (run / "metrics.csv").unlink()
    assert said(capsys, run)[1].endswith("begins")


def test_boards_are_told_how_busy_they_are(tmp_path, capsys):
    run = tmp_path / "r"
    board = f"{sys.executable} {Path(__file__).parents[3] / 'examples' / 'board' / 'board.py'}"
    argv = ["run", "--workload", "alexnet", "--method", "random", "--evals", "4", "--quiet", "--evaluator"]
    assert main([*argv, board, "--out", str(run)]) == 0
    with open(run / "measurements.jsonl", "a") as stream:
        stream.write('{"kind": "meas')
    head, row = said(capsys, run)
    busy = row[head.index("boards busy") :].split()[0]
    assert 0 <= int(busy.removesuffix("%")) <= 100


def test_what_is_no_run_is_refused(tmp_path, capsys):
    refuse(capsys, ["watch", str(tmp_path)], "run folder")
    refuse(capsys, ["watch", str(tmp_path), "--every", "0"], "--every")


def test_a_bound_that_a_run_proved_at_its_end_is_shown(tmp_path, capsys):
    run = tmp_path / "r"
    argv = ["run", "--workload", "alexnet", "--chip", "edge", "--method", "random", "--evals", "4", "--quiet"]
    assert main([*argv, "--out", str(run)]) == 0
    summary = json.loads((run / "summary.json").read_text())
    shown = f"{summary['baseline']['cost'] / summary['bound']:.4f}x"
    assert said(capsys, run)[1].split()[3] == shown
    (run / "summary.json").unlink()
    assert said(capsys, run)[1].split()[3] == "–"


def test_damaged_metrics_are_refused(tmp_path, capsys):
    run = tmp_path / "r"
    argv = ["run", "--workload", "alexnet", "--method", "random", "--evals", "4", "--quiet"]
    assert main([*argv, "--bound-seconds", "0", "--out", str(run)]) == 0
    head, row = (run / "metrics.csv").read_bytes().splitlines()
    for lines in ([b"other,columns", b"1,2"], [head, row.replace(b"4", b"four")], [head, b"\xff" + row[1:]]):
        (run / "metrics.csv").write_bytes(b"\n".join([*lines, b""]))
        refuse(capsys, ["watch", "--once", str(run)], "metrics.csv: damaged metrics: ")
