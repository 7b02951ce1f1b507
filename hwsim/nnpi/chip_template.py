"""A chip as a commented TOML file to start one's own from."""

from __future__ import annotations

from collections.abc import Mapping

from hwsim.nnpi.chip import Chip

_COMPUTE = {
    "ices": "engines that work together on every op",
    "mac_rows": "output pixels an engine takes in a cycle",
    "mac_cols": "output channels an engine takes in a cycle",
    "mac_depth": "steps of the reduction an engine takes in a cycle",
    "clock_Hz": "of the engines",
    "dsp_lanes": "element operations an engine's vector unit does in a cycle",
}
_EFFECTS = {
    "cross": "the slowest memory's traffic also crosses prefetch.via",
    "prefetch": "weights in the slowest memory are fetched ahead of time",
    "contention": "what is fetched ahead uses no more than the op that runs leaves idle",
    "moves": "what is read or written outside crosses the slowest memory; views move nothing",
    "overhead": "launch_s an op",
    "noise": "measurements vary by noise.sigma",
}

_FACTORS = {
    "compute": "On the compute time of every op of a kind; 1 where a kind is not named.",
    "traffic": "On the bytes that reads and writes of its tensors move; what they hold of a memory stays.",
}


def template(chip: Chip, name: str, notes: Mapping[str, str] | None = None) -> str:
    """TOML text with the chip's values under another name, a comment on each; `parse_chip` reads it back.

    `notes` are other comments, by where the value stands: "memories.dram.bandwidth_Bps", "factors.compute.conv".
    """
    given = notes or {}

    def line(where: str, value: str, why: str) -> str:
        return _line(where.rsplit(".", 1)[-1], value, given.get(where, why))

    lines = [
        given.get(
            "", f"# A chip like {chip.name}: change what differs (docs/explanations/nnpi.md: equations)."
        ),
        'kind = "chip"',
        "version = 1",
        line("name", f'"{name}"', f"how summaries, tables and figures name the chip{_generic(name)}"),
        "",
        "# 2 to 8 memories, the slowest (and largest) first. Choice 0 of a mapping is the first one.",
    ]
    for memory in chip.memories:
        of = f"memories.{memory.name}"
        rate = _rate(memory.bandwidth_Bps)
        lines += [
            "[[memories]]",
            f'name = "{memory.name}"',
            line(f"{of}.capacity_bytes", f"{memory.capacity_bytes:_}", "bytes it holds"),
            line(
                f"{of}.reserved_bytes",
                f"{memory.reserved_bytes:_}",
                "of these, what the runtime keeps for itself",
            ),
            line(f"{of}.bandwidth_Bps", rate, "bytes a second, reads and writes together"),
            "",
        ]
    lines += ["[compute]"]
    for key, why in _COMPUTE.items():
        value = getattr(chip.compute, key)
        lines.append(line(f"compute.{key}", _rate(value) if key == "clock_Hz" else str(value), why))
    widths, prefetch = chip.element_bytes, chip.prefetch
    lines += [
        "",
        "[overhead]",
        line("overhead.launch_s", repr(chip.overhead.launch_s), "seconds every op costs whatever it does"),
        "",
        "[element_bytes]",
        line("weight", repr(widths.weight), "bytes an element: 1 is int8, 2 bfloat16, 0.5 int4"),
        line("activation", repr(widths.activation), "likewise"),
        "",
        "# Both name memories above, any but the first; with two memories both are the second.",
        "[prefetch]",
        line("into", f'"{prefetch.into}"', "where weights of the slowest memory are fetched to"),
        line(
            "via", f'"{prefetch.via}"', "with effects.cross: what all traffic of the slowest memory crosses"
        ),
        "",
        "[noise]",
        line("noise.sigma", repr(chip.noise.sigma), "of the logarithm of a measured latency"),
        "",
        "# What the simulation counts.",
        "[effects]",
    ]
    lines += [
        line(f"effects.{key}", str(getattr(chip.effects, key)).lower(), why) for key, why in _EFFECTS.items()
    ]
    lines += _factors(chip, given)
    return "\n".join(lines) + "\n"


def _generic(name: str) -> str:
    return "; CHANGE IT: every chip is called so" if name == "chip" else ""


def _factors(chip: Chip, notes: Mapping[str, str]) -> list[str]:
    """The tables of factors that the chip has."""
    lines = []
    for table, why in _FACTORS.items():
        factors = getattr(chip.factors, table)
        if factors:
            lines += ["", f"# {why}", f"[factors.{table}]"]
            lines += [
                _line(kind, repr(factor), notes.get(f"factors.{table}.{kind}", ""))
                for kind, factor in factors.items()
            ]
    return lines


def _rate(value: float) -> str:
    """A number of the order of 1e9, exactly."""
    billions = f"{value / 1e9:g}e9"
    return billions if float(billions) == value else repr(float(value))


def _line(key: str, value: str, why: str) -> str:
    return f"{key} = {value}".ljust(36) + f" # {why}" if why else f"{key} = {value}"
