"""Chip files."""

from __future__ import annotations

import tomllib
from dataclasses import replace

import numpy as np
import pytest
import tomli_w
from hypothesis import given

from hwsim.nnpi.chip import Chip, Factors, chip_file, chip_names, describe, load_chip, parse_chip, template
from hwsim.nnpi.problem import NnpiProblem
from strategies import chips
from workloads.errors import InputError
from workloads.load import load

TEXT = chip_file(load_chip("nnpi"))


@given(chips())
def test_toml_text_of_a_chip_gives_the_chip_back(chip: Chip):
    assert parse_chip(chip_file(chip), "x.toml") == chip


def test_nnpi_has_the_published_memories_and_peak():
    chip = load_chip("nnpi")
    assert chip.memory_names == ("dram", "llc", "sram")
    assert [m.capacity_bytes for m in chip.memories] == [32 * 2**30, 24 * 2**20, 4 * 2**20]
    assert [m.bandwidth_Bps for m in chip.memories] == [67.2e9, 680e9, 6.8e12]
    c = chip.compute
    peak = 2 * c.ices * c.mac_rows * c.mac_cols * c.mac_depth * c.clock_Hz
    assert peak == pytest.approx(92e12, rel=0.01)
    assert "nnpi" in chip_names()


def test_a_chip_without_factors_has_no_table_of_them_and_a_template_keeps_them():
    assert "factors" not in TEXT
    chip = replace(load_chip("nnpi"), name="mine", factors=Factors({"conv": 1.25}, {"matmul": 0.5}))
    assert parse_chip(template(chip, "mine"), "x.toml") == chip


def test_a_chip_that_reserves_nothing_has_the_text_that_it_had_before():
    assert "reserved_bytes" not in TEXT
    assert parse_chip(TEXT.replace("4194304", "4194304, reserved_bytes = 0"), "x.toml") == load_chip("nnpi")


def test_what_the_runtime_reserves_is_kept_in_files_and_templates_and_tensors_may_not_take_it():
    chip = replace(load_chip("nnpi"), name="mine")
    *slower, sram = chip.memories
    chip = replace(chip, memories=(*slower, replace(sram, reserved_bytes=2**20)))
    for text in (chip_file(chip), template(chip, "mine")):
        assert parse_chip(text, "x.toml") == chip
    assert describe(chip).endswith("sram 3 MiB at 6800 GB/s")
    small = replace(chip, memories=(*slower, replace(sram, capacity_bytes=3 * 2**20)))
    reserving, smaller = (NnpiProblem(load("resnet18"), each) for each in (chip, small))
    assert reserving.memories() == smaller.memories() == (*reserving.memories()[:2], ("sram", 3 * 2**20))
    assert np.array_equal(reserving.baseline.mapping, smaller.baseline.mapping)
    everything = np.where(reserving.space.live, 2, -1).astype(np.int16)
    assert list(map(str, reserving.judge(everything))) == list(map(str, smaller.judge(everything))) != []
    assert reserving.fingerprint() != smaller.fingerprint()


def test_every_packaged_chip_loads():
    for name in chip_names():
        assert load_chip(name).name == name


def test_a_chip_loads_from_a_file(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(TEXT)
    assert load_chip(file) == load_chip("nnpi")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "nnpi"', "name =", "x.toml: expected TOML.*line 3"),
        ("clock_Hz = 940000000.0", "clock_Hz = nan", "compute.clock_Hz.*found nan"),
        ("clock_Hz = 940000000.0", "clock_Hz = inf", "compute.clock_Hz.*found inf"),
        ("clock_Hz = 940000000.0", "clock_Hz = -1", "compute.clock_Hz.*greater than or equal to 1.*found -1"),
        ("clock_Hz = 940000000.0", "clock_Hz = 0", "compute.clock_Hz.*greater than or equal to 1.*found 0"),
        ("clock_Hz = 940000000.0", 'clock_Hz = "1"', "compute.clock_Hz.*number.*found '1'"),
        ("clock_Hz = 940000000.0", "clock_hz = 1.0", "compute.clock_[Hh]z: expected"),
        ("ices = 12", "ices = 1.5", "compute.ices.*integer.*found 1.5"),
        ("ices = 12", "ices = true", "compute.ices.*integer.*found True"),
        ("ices = 12", "", "compute.ices: expected a value, found none"),
        ("cross = true", "cross = 1", "effects.cross.*boolean.*found 1"),
        ("cross = true", "cross = true\ncrosss = true", "effects.crosss: expected no such key"),
        (
            'name = "sram"',
            'name = "sram", banks = 4',
            r"\(sram\).banks: .*, found 4; for streams .* a lower bandwidth_Bps and access_s",
        ),
        (
            'name = "sram"',
            'name = "sram", read_Bps = 4e9',
            "reads and writes share one bandwidth_Bps: give the lower",
        ),
        (
            'name = "sram"',
            'name = "sram", start_s = 1e-6',
            "the start of a transfer is access_s of its memory",
        ),
        ('name = "sram"', 'name = "sram", access_s = -1.0', r"\(sram\).access_s: expected .* 0, found -1.0"),
        (
            "[effects]",
            "dma_channels = 1\n[effects]",
            "waiting.shared, in nnpi's chip files: 1 for one channel",
        ),
        (
            "[effects]",
            "[waiting]\nshared = 1.5\n[effects]",
            "waiting.shared: expected .* equal to 1, found 1.5",
        ),
        ('name = "sram"', 'name = "sram", weights_only = true', "room that is taken is reserved_bytes"),
        ("capacity_bytes = 25165824", "capacity_bytes = 0", r"memories\[1\] \(llc\).capacity_bytes.*found 0"),
        (
            "bandwidth_Bps = 680000000000.0",
            "bandwith_Bps = 1.0",
            r"memories\[1\] \(llc\).bandwith_Bps: expected no such key but name, .*; did you mean bandwidth_Bps\?",
        ),
        ("bandwidth_Bps = 680000000000.0", "bandwidth_Bps = 1.0", "memories.*does not fall.*dram.*llc"),
        ('name = "sram"', 'name = "llc"', "memories: expected different names"),
        (
            "capacity_bytes = 25165824",
            "capacity_bytes = 25165824, reserved_bytes = 25165824",
            r"memories \(llc\).reserved_bytes: expected less than capacity_bytes, 25165824, found 25165824",
        ),
        (
            "capacity_bytes = 25165824",
            "capacity_bytes = 25165824, reserved_bytes = -1",
            r"memories\[1\] \(llc\).reserved_bytes: expected greater than or equal to 0, found -1",
        ),
        ('into = "llc"', 'into = "cache"', "prefetch.into: expected.*llc, sram.*found 'cache'"),
        (
            "[effects]",
            "[factors.traffic]\ncnv = 1.1\n[effects]",
            r"factors.traffic: expected one of conv, .*found 'cnv'; did you mean conv\?",
        ),
        (
            "[effects]",
            "[factors.compute]\nconv = 0.0\n[effects]",
            r"factors.compute.conv: expected .*found 0.0",
        ),
        ('via = "llc"', 'via = "dram"', "prefetch.via: expected.*found 'dram'"),
    ],
)
def test_a_wrong_chip_file_is_one_line_that_names_file_key_expected_and_found(
    old: str, new: str, message: str
):
    assert old in TEXT
    with pytest.raises(InputError, match=message) as caught:
        parse_chip(TEXT.replace(old, new, 1), "x.toml")
    assert str(caught.value).startswith("x.toml: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("count", [0, 1, 9])
def test_a_chip_has_two_to_eight_memories(count: int):
    fields = tomllib.loads(TEXT)
    fields["memories"] = [{"name": f"m{i}", "capacity_bytes": 1, "bandwidth_Bps": 1.0} for i in range(count)]
    with pytest.raises(
        InputError, match=r"x.toml: memories: expected Tuple should have at (least 2|most 8) items"
    ):
        parse_chip(tomli_w.dumps(fields), "x.toml")


def without(memory: str, **prefetch: str) -> str:
    fields = tomllib.loads(TEXT)
    fields["memories"] = [m for m in fields["memories"] if m["name"] != memory]
    return tomli_w.dumps({**fields, "prefetch": {**fields["prefetch"], **prefetch}})


def test_a_chip_that_loses_a_memory_says_what_prefetch_has_to_name():
    with pytest.raises(InputError) as caught:
        parse_chip(without("llc"), "x.toml")
    assert str(caught.value) == (
        "x.toml: prefetch.into: expected the memory that weights lying in dram are prefetched into, one of this"
        " chip's memories other than its slowest (sram), found 'llc', which this chip does not have"
    )
    with pytest.raises(
        InputError, match=r"prefetch.via: expected the memory that all traffic of dram crosses.*'llc'"
    ):
        parse_chip(without("llc", into="sram"), "x.toml")
    with pytest.raises(InputError, match=r"prefetch.via: .*found 'dram', which is the slowest"):
        parse_chip(without("llc", into="sram", via="dram"), "x.toml")
    two = parse_chip(without("llc", into="sram", via="sram"), "x.toml")
    assert two.memory_names == ("dram", "sram")


def test_a_chip_is_described_by_its_memories():
    two = parse_chip(without("llc", into="sram", via="sram"), "x.toml")
    assert describe(two) == "dram 32 GiB at 67.2 GB/s, sram 4 MiB at 6800 GB/s"
    small = replace(two, memories=(replace(two.memories[0], capacity_bytes=1000), two.memories[1]))
    assert describe(small).startswith("dram 1000 B at")


def test_unknown_names_and_unreadable_files_are_the_users_error(tmp_path):
    with pytest.raises(
        InputError, match=r"chip: expected one of .*nnpi.* or a .toml file, found 'nnpj'; did you mean nnpi"
    ):
        load_chip("nnpj")
    with pytest.raises(InputError, match=r"absent.toml: expected a chip file: No such file"):
        load_chip(tmp_path / "absent.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="in UTF-8, found other bytes at offset 0"):
        load_chip(tmp_path / "binary.toml")


def test_a_chip_file_of_another_kind_or_version_is_refused():
    with pytest.raises(InputError, match=r"x.toml: version: expected 1, found 2"):
        parse_chip(TEXT.replace("version = 1", "version = 2"), "x.toml")
    with pytest.raises(InputError, match=r"x.toml: kind: expected 'chip', found 'workload'"):
        parse_chip(TEXT.replace('"chip"', '"workload"'), "x.toml")
