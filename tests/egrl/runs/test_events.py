"""Event files: tensorboardX's own messages read them, and no file replaces another."""

from __future__ import annotations

import math
import struct
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

from egrl.runs.events import GREATEST, EventFile


def events(path: Path) -> list[Any]:
    """The events of a file; checksums, by tensorboardX's code, and lengths are checked."""
    with warnings.catch_warnings():  # it calls a deprecated part of torch while it is imported
        warnings.simplefilter("ignore", DeprecationWarning)
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.record_writer import masked_crc32c
    content, at, found = path.read_bytes(), 0, []
    while at < len(content):
        length, checked = struct.unpack_from("<QI", content, at)
        assert checked == masked_crc32c(content[at : at + 8])
        data = content[at + 12 : at + 12 + length]
        assert struct.unpack_from("<I", content, at + 12 + length) == (masked_crc32c(data),)
        event = Event.FromString(data)
        assert event.SerializeToString() == data
        found.append(event)
        at += 16 + length
    return found


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("events.*"))


def test_a_file_says_its_version_where_it_begins_and_the_scalars_of_each_step(tmp_path):
    before = time.time()
    file = EventFile(tmp_path, 300)
    file.append(300, {"best_speedup": 1.25, "é": -0.1})
    file.append(2**40, {"zero": 0, "tiny": 1e-30})
    file.close()
    version, start, first, second = events(*files(tmp_path))
    assert version.file_version == "brain.Event:2"
    assert start.step == 300
    assert start.session_log.status == 1
    assert before <= first.wall_time <= time.time()
    assert first.step == 300
    assert [v.tag for v in first.summary.value] == ["best_speedup", "é"]
    assert [v.simple_value for v in first.summary.value] == pytest.approx([1.25, -0.1])
    assert second.step == 2**40
    assert {v.tag: v.simple_value for v in second.summary.value} == pytest.approx({"zero": 0, "tiny": 1e-30})


def test_what_no_event_can_hold_is_left_out(tmp_path):
    file = EventFile(tmp_path, 0)
    rest = {"nan": math.nan, "inf": -math.inf, "great": GREATEST * 1.1}
    file.append(0, {**rest, "greatest": GREATEST})
    file.close()
    _, start, only = events(*files(tmp_path))
    assert start.step == only.step == 0
    assert [(v.tag, v.simple_value) for v in only.summary.value] == [("greatest", GREATEST)]


def test_every_step_is_in_the_file_when_it_was_appended(tmp_path):
    file = EventFile(tmp_path, 0)
    for step in range(3):
        file.append(step, {"a": step})
        assert [e.step for e in events(*files(tmp_path))[2:]] == list(range(step + 1))
    file.close()


def test_files_of_one_second_are_read_in_the_order_in_which_they_were_made(tmp_path, monkeypatch):
    monkeypatch.setattr(time, "time", lambda: 1_700_000_000.5)
    for first in (5, 3, 4):
        file = EventFile(tmp_path, first)
        file.append(first, {"a": 1.0})
        file.close()
    assert [events(path)[1].step for path in files(tmp_path)] == [5, 3, 4]
    assert all(".tfevents.1700000000." in path.name for path in files(tmp_path))
