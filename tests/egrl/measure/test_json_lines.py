"""A file of JSON lines: what it has is found again, whoever cut, damaged or deleted it."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

from egrl.measure.json_lines import Lines
from workloads.errors import Notice


def opened(path: Path) -> Lines:
    return Lines(path, "the lines of a test", "line", 1)


def numbers(path: Path) -> list[int]:
    return [json.loads(line)["number"] for line in path.read_text().splitlines()]


def test_a_file_goes_on_after_its_last_whole_line(tmp_path):
    path = tmp_path / "lines.jsonl"
    first = opened(path)
    for number in range(3):
        first.add({"number": number})
    first.close()
    path.write_bytes(path.read_bytes().replace(b'"number": 1', b'"number": ?') + b'{"number": 3')
    again = opened(path)
    assert [entry["number"] for entry in again.found] == [0, 2]
    assert {entry["kind"] for entry in again.found} == {"line"}
    again.add({"number": 4})
    again.close()
    last = path.read_text().splitlines()[-1]
    assert json.loads(last) == {"kind": "line", "version": 1, "number": 4}
    assert len(path.read_text().splitlines()) == 4


@pytest.mark.parametrize("meddle", [Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:20])])
@pytest.mark.parametrize("at_the_end", [False, True])
def test_one_that_is_deleted_or_cut_meanwhile_is_written_again(tmp_path, meddle, at_the_end):
    path = tmp_path / "lines.jsonl"
    lines = opened(path)
    lines.add({"number": 0})
    lines.add({"number": 1})
    meddle(path)
    use = lines.close if at_the_end else lambda: lines.add({"number": 2})
    with pytest.warns(Notice, match="written again, nothing is lost"):
        use()
    lines.close()
    assert numbers(path) == [0, 1, *([] if at_the_end else [2])]


def test_what_others_have_added_stays(tmp_path):
    path = tmp_path / "lines.jsonl"
    lines = opened(path)
    lines.add({"number": 0})
    with path.open("a") as stream:
        stream.write('{"number": 7}\n')
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lines.add({"number": 1})
        lines.close()
    assert numbers(path) == [0, 7, 1]


def test_a_file_that_goes_between_two_looks_is_written_again(tmp_path, monkeypatch):
    lines = opened(tmp_path / "lines.jsonl")
    lines.add({"number": 1})
    lines.path.unlink()
    monkeypatch.setattr(Path, "is_file", lambda path: True)  # as it was a moment ago
    with pytest.warns(Notice, match="written again"):
        lines.add({"number": 2})
    lines.close()
    assert numbers(lines.path) == [1, 2]
