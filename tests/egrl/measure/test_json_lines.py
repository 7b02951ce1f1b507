"""A file of JSON lines: what it has is found again, whoever damaged it."""

from __future__ import annotations

import json
from pathlib import Path

from egrl.measure.records import Lines


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


def test_what_others_have_added_stays(tmp_path):
    path = tmp_path / "lines.jsonl"
    lines = opened(path)
    lines.add({"number": 0})
    with path.open("a") as stream:
        stream.write('{"number": 7}\n')
    lines.add({"number": 1})
    lines.close()
    assert numbers(path) == [0, 7, 1]
