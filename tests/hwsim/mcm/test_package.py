"""Package files."""

from __future__ import annotations

import pytest

from hwsim.mcm.package import describe, load_package, package_file, package_names, parse_package
from workloads.errors import InputError


def test_every_shipped_package_is_read_and_written_back():
    assert package_names() == ("edge4", "mcm36", "profiled")
    for name in package_names():
        package = load_package(name)
        assert package.name == name
        assert parse_package(package_file(package), "f.toml") == package
    assert describe(load_package("mcm36")).startswith("36 chips of 32 MiB")


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("chips = 36", "chips = 63", "f.toml: chips: expected less than or equal to 62, found 63"),
        ("acyclic = true", "acyclic = false", "constraints.triangle: expected acyclic = true with it"),
        ("sram_bytes", "sram", "f.toml: chip.sram"),
        ('load = "compute"', 'load = "all"', "f.toml: load: expected 'compute' or 'compute\\+transfers'"),
        ("no_skip = true", "no_skip = 1", "f.toml: constraints.no_skip: expected a valid boolean, found 1"),
    ],
)
def test_a_wrong_package_is_refused_with_its_key(old, new, match):
    text = package_file(load_package("mcm36"))
    assert old in text
    with pytest.raises(InputError, match=match):
        parse_package(text.replace(old, new), "f.toml")
