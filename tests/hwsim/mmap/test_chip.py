"""Chip files of the game."""

from __future__ import annotations

import pytest

from hwsim.mmap.chip import chip_file, chip_names, describe, load_chip, parse_chip
from workloads.errors import InputError


def test_every_shipped_chip_is_read_and_written_back():
    for name in chip_names():
        chip = load_chip(name)
        assert chip.name == name
        assert parse_chip(chip_file(chip), "f.toml") == chip
        assert "128 MiB" in describe(chip)


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ('kind = "mmap-chip"', 'kind = "chip"', "f.toml: kind: expected 'mmap-chip', found 'chip'"),
        ("[hbm]", "[dram]", "f.toml: .*expected"),
        ("read_Bps", "readBps", "f.toml: cmem.read"),
        (
            "capacity_bytes = 134217728",
            "capacity_bytes = -1",
            "f.toml: cmem.capacity_bytes: expected .* found -1",
        ),
        ("capacity_bytes = 134217728", "capacity_bytes = 134217729", "expected a multiple of granule_bytes"),
        (
            "granule_bytes = 4096",
            "granule_bytes = 4",
            "cmem.granule_bytes: expected at least .* / 16777216",
        ),
        (
            "bandwidth_Bps = 614000000000.0",
            "bandwidth_Bps = 1.5e12",
            "cmem.write_Bps: expected at least hbm",
        ),
        ("peak_flops = 138000000000000.0", "peak_flops = nan", "f.toml: compute.peak_flops"),
    ],
)
def test_a_wrong_value_is_refused_by_its_key(old, new, match):
    text = chip_file(load_chip("tpuv4i"))
    assert old in text
    with pytest.raises(InputError, match=match):
        parse_chip(text.replace(old, new), "f.toml")


def test_a_chip_of_another_problem_or_an_unknown_name_is_refused():
    with pytest.raises(
        InputError, match=r"chip: expected one of tpuv4i, tpuv5e or a \.toml file, found 'nnpi'"
    ):
        load_chip("nnpi")
