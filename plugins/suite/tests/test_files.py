"""Files of results that a stranger hands in: what is not as a run writes it is refused in one line."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from egrl_suite import library
from egrl_suite.__main__ import main

QUICK = library.instances("test", ("nnpi",), True)


def search(at: int = 0, **changed: Any) -> dict[str, Any]:
    one = QUICK[at]
    answers = dict.fromkeys(("25", "100", "400"), one.default)
    return {
        "method": "mine", "instance": one.name, "seed": 0, "budget": 400, "answers": answers, "failed": "",
    } | changed  # fmt: skip


def document(*rows: Any, **changed: Any) -> dict[str, Any]:
    head = {"kind": "suite-results", "suite": library.version(), "track": "measurements", "split": "test"}
    return {**head, "quick": True, "most": 400, "rows": list(rows), **changed}


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    capsys.readouterr()
    assert main(list(argv)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (document(search(), search()), "expected each search once, found mine vgg16@nnpi seed 0 twice"),
        (document(search(budget=100)), "budget: expected 400, found 100"),
        (document(search(budget="400")), "budget: expected 400, found '400'"),
        (document(search(seed=-1)), "seed: expected a number from 0 on, found -1"),
        (document(search(seed=[1])), "seed: expected a number from 0 on, found [1]"),
        (document(search(method="a`|9|")), "method: expected a name, found"),
        (document(search(method=["a"])), "method: expected a name, found"),
        (document(search(answers=None)), "answers: expected placements as text by mark, found None"),
        (document(search(answers={"25": 5})), "answers: expected placements as text by mark, found"),
        (document(search(failed=0)), "failed: expected text, found 0"),
        (document(search(instance=[5])), "instance: expected one of the test split, found [5]"),
        (document({"method": "a"}), "expected method, instance, seed, budget, answers, failed"),
        (document(5), "expected a table, found 5"),
        (document(rows={}), "rows: expected a list of searches, found {}"),
        (document(), "rows: expected a list with one search at least, found []"),
        (document(search(), quick=2), "quick: expected true or false, found 2"),
        (document(search(), split=""), "split: expected train, validation or test, found ''"),
        (document(search(), track=[]), "track: expected one of one-shot, "),
        (document(search(), most=3), "most: expected a mark of the track, found 3"),
        ({"kind": "suite-results"}, "expected results of the suite"),
    ],
)
def test_a_file_that_no_run_writes_is_refused_in_one_line(given, said, tmp_path, capsys):
    path = tmp_path / "results.json"
    path.write_text(json.dumps(given))
    error = refused(capsys, "table", str(path))
    assert error.startswith(f"egrl suite: error: {path}: ")
    assert said in error
    if given.get("rows") != []:
        refused(capsys, "run", "--track", "measurements", "--split", "test", "--quick", "--method", "default", "-o",
                str(path))  # fmt: skip


@pytest.mark.parametrize(
    "data",
    [gzip.compress(b"[1]" * 999)[:-9], gzip.compress(b"[1]")[:12] + b"x" * 30, gzip.compress(b"[" * 99999)],
)
def test_a_damaged_file_is_refused_in_one_line(data, tmp_path, capsys):
    path = tmp_path / "results.json.gz"
    path.write_bytes(data)
    assert f"{path}: expected a file of results" in refused(capsys, "table", str(path))


def test_what_cannot_be_written_is_one_line_before_anything_runs(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    below = tmp_path / "file" / "x.json"
    run = ("run", "--split", "test", "--quick", "--method", "default", "-o", str(below))
    assert str(below.parent) in refused(capsys, *run)
    assert str(below.parent) in refused(capsys, "export", QUICK[0].name, str(below.parent))
    results = tmp_path / "results.json"
    results.write_text(json.dumps(document(*(search(at) for at in range(len(QUICK))))))
    for name in ("x.doc", "file/x.png"):
        capsys.readouterr()
        assert main(["table", str(results), "--figure", str(tmp_path / name)]) == 2
        assert capsys.readouterr().err.count("\n") == 1
