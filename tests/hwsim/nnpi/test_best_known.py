"""The best mappings known: kept, found again, never made worse, never compared under another hash."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from hwsim.nnpi import best_known as module
from hwsim.nnpi.best_known import PACKAGED, BestKnown, NotComparable, best_known, find, identity, record
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.judge import judge
from hwsim.nnpi.latency import trace_latency
from hwsim.nnpi.placer import DEFAULT_RULE, compile_map, rule_named
from hwsim.nnpi.tables import build_tables
from workloads.errors import InputError
from workloads.load import load, names

CHIP = load_chip("nnpi")
WORKLOAD = load("resnet18")
TABLES = build_tables(WORKLOAD, CHIP)
SLOW = np.where(np.stack([TABLES.weight_bytes, TABLES.activation_bytes], axis=1) > 0, 0, -1).astype(np.int16)
FAST = compile_map(TABLES, rule_named(DEFAULT_RULE))


def test_what_is_recorded_is_found_again(tmp_path):
    kept = record(WORKLOAD, CHIP, FAST, "by hand", tmp_path)
    found = best_known(WORKLOAD, CHIP, tmp_path)
    assert found is not None
    assert np.array_equal(found.mapping, FAST)
    assert found.cost_s == kept.cost_s == trace_latency(TABLES, FAST)[0]
    assert (found.command, found.hash) == ("by hand", identity(WORKLOAD, CHIP))


def test_a_slower_mapping_does_not_replace_a_faster_one_and_a_faster_one_does(tmp_path):
    slow = record(WORKLOAD, CHIP, SLOW, "slow", tmp_path)
    assert slow.command == "slow"
    assert record(WORKLOAD, CHIP, FAST, "fast", tmp_path).command == "fast"
    assert record(WORKLOAD, CHIP, SLOW, "slow again", tmp_path).command == "fast"
    assert record(WORKLOAD, CHIP, FAST, "as fast", tmp_path).command == "fast"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_cost_in_the_file_is_not_believed_but_measured(tmp_path):
    record(WORKLOAD, CHIP, SLOW, "slow", tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_text(json.dumps({**json.loads(file.read_text()), "cost_s": 1e-12}))
    found = best_known(WORKLOAD, CHIP, tmp_path)
    assert found is not None
    assert found.cost_s == trace_latency(TABLES, SLOW)[0]
    assert record(WORKLOAD, CHIP, FAST, "fast", tmp_path).command == "fast"


def test_another_chip_of_the_same_name_is_not_comparable_and_it_says_so(tmp_path):
    record(WORKLOAD, CHIP, FAST, "by hand", tmp_path)
    other = replace(CHIP, overhead=replace(CHIP.overhead, launch_s=1e-6))
    assert best_known(WORKLOAD, other, tmp_path) is None
    found = find(WORKLOAD, other, tmp_path)
    assert isinstance(found, NotComparable)
    assert found.found == identity(WORKLOAD, CHIP)
    assert "not comparable" in str(found)
    assert record(WORKLOAD, other, SLOW, "there", tmp_path).command == "there"
    assert isinstance(find(WORKLOAD, CHIP, tmp_path), BestKnown)


def test_another_version_of_the_simulator_is_not_comparable(tmp_path, monkeypatch):
    record(WORKLOAD, CHIP, FAST, "by hand", tmp_path)
    monkeypatch.setattr(module, "SIMULATOR_VERSION", 1_000_000)
    assert isinstance(find(WORKLOAD, CHIP, tmp_path), NotComparable)


def test_noise_does_not_matter_because_costs_are_noise_free(tmp_path):
    noisy = replace(CHIP, effects=replace(CHIP.effects, noise=True))
    record(WORKLOAD, CHIP, FAST, "by hand", tmp_path)
    assert isinstance(find(WORKLOAD, noisy, tmp_path), BestKnown)


def test_nothing_is_known_of_names_never_recorded(tmp_path):
    assert find(WORKLOAD, CHIP, tmp_path) is None
    assert best_known(WORKLOAD, CHIP, tmp_path) is None


def test_an_invalid_mapping_is_not_recorded(tmp_path):
    too_much = np.where(SLOW == 0, 2, -1).astype(np.int16)
    with pytest.raises(ValueError, match="bytes do not"):
        record(WORKLOAD, CHIP, too_much, "no", tmp_path)
    with pytest.raises(ValueError, match="expected int16 of shape"):
        record(WORKLOAD, CHIP, FAST[:3], "no", tmp_path)
    with pytest.raises(ValueError, match=r"expected memories 0\.\.2"):
        record(WORKLOAD, CHIP, np.full_like(FAST, 3), "no", tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_damaged_file_is_an_error_of_one_line(tmp_path):
    record(WORKLOAD, CHIP, FAST, "by hand", tmp_path)
    (file,) = tmp_path.iterdir()
    text = file.read_text()
    document = json.loads(text)
    del document["command"]
    for damaged in (
        text[:50],
        "[]",
        json.dumps({**document}),
        text.replace('"mapping": [[', '"mapping": [[9, '),
    ):
        file.write_text(damaged)
        with pytest.raises(InputError, match=r"resnet18"):
            find(WORKLOAD, CHIP, tmp_path)


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    record(WORKLOAD, CHIP, SLOW, "slow", tmp_path)

    def fail(*_: object) -> None:
        raise OSError("no space")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="no space"):
        record(WORKLOAD, CHIP, FAST, "fast", tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    found = best_known(WORKLOAD, CHIP, tmp_path)
    assert found is not None
    assert found.command == "slow"


@pytest.mark.parametrize("name", names())
def test_the_packaged_mappings_are_valid_and_no_slower_than_the_compiler(name):
    workload = load(name)
    found = find(workload, CHIP, PACKAGED)
    assert isinstance(found, BestKnown), found
    memories = [(memory.name, memory.capacity_bytes) for memory in CHIP.memories]
    assert not judge(workload, memories, 1.0, 1.0, found.mapping)
    tables = build_tables(workload, CHIP)
    assert found.cost_s <= trace_latency(tables, compile_map(tables, rule_named(DEFAULT_RULE)))[0]
    assert found.command.startswith("python benchmarks/certificates.py")
