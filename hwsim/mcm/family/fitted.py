"""A fitted package: each fitted rate with its 90 % interval and the rate before.

A package has a place for the rate of its chips and of its links; for launches, moving, messages that keep chips busy
and what chips or kinds of op have of their own it has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hwsim.family import Estimate
from hwsim.mcm.package import Package, package_file, parse_package


def fitted(package: Package, estimates: Mapping[str, Estimate], name: str) -> tuple[Package, str]:
    """The package so described, and its file.

    Raises:
        InputError: the name is none for a package.
    """
    notes = {}
    peak_ops, bandwidth_Bps = package.chip.peak_ops, package.link.bandwidth_Bps
    if (compute := estimates.get("compute")) is not None:  # of times: a rate is over it
        slower = Estimate(1 / compute.factor, 1 / compute.high, 1 / compute.low)
        peak_ops, notes["peak_ops"] = _value(peak_ops, slower)
    if (link := estimates.get("bandwidth of links")) is not None:
        bandwidth_Bps, notes["bandwidth_Bps"] = _value(bandwidth_Bps, link)
    found = replace(
        package,
        name=name,
        prediction={},
        chip=replace(package.chip, peak_ops=peak_ops),
        link=replace(package.link, bandwidth_Bps=bandwidth_Bps),
    )
    lines = package_file(found).splitlines()
    noted = [f"{line}  # {notes[key]}" if (key := line.split(" = ")[0]) in notes else line for line in lines]
    title = f"# {package.name}, fitted to measurements. After a value: before; the 90 % interval."
    text = "\n".join([title, *noted]) + "\n"
    return parse_package(text, f"{name}.toml"), text


def _value(before: float, found: Estimate) -> tuple[float, str]:
    """The fitted value, and what is noted beside it."""
    note = f"{before:.4g} before; {before * found.low:.4g} to {before * found.high:.4g}"
    return float(f"{before * found.factor:.5g}"), note
