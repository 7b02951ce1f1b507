"""A chip as a commented TOML file to start one's own from."""

from __future__ import annotations

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


def template(chip: Chip, name: str) -> str:
    """TOML text with the chip's values under another name, a comment on each; `parse_chip` reads it back."""
    lines = [
        f"# A chip like {chip.name}: change what is different. docs/nnpi.md has the equations.",
        'kind = "chip"',
        "version = 1",
        _line("name", f'"{name}"', "summaries, tables and figures tell chips apart by it"),
        "",
        "# 2 to 8 memories, the slowest (and largest) first. Choice 0 of a mapping is the first one.",
    ]
    for memory in chip.memories:
        lines += [
            "[[memories]]",
            f'name = "{memory.name}"',
            _line("capacity_bytes", f"{memory.capacity_bytes:_}", "bytes that tensors may take"),
            _line("bandwidth_Bps", _rate(memory.bandwidth_Bps), "bytes a second, reads and writes together"),
            "",
        ]
    lines += ["[compute]"]
    for key, why in _COMPUTE.items():
        value = getattr(chip.compute, key)
        lines.append(_line(key, _rate(value) if key == "clock_Hz" else str(value), why))
    lines += [
        "",
        "[overhead]",
        _line("launch_s", repr(chip.overhead.launch_s), "seconds every op costs whatever it does"),
        "",
        "[element_bytes]",
        _line("weight", repr(chip.element_bytes.weight), "bytes an element: 1 is int8, 2 bfloat16, 0.5 int4"),
        _line("activation", repr(chip.element_bytes.activation), "likewise"),
        "",
        "# Both name memories above, any but the first; with two memories both are the second.",
        "[prefetch]",
        _line("into", f'"{chip.prefetch.into}"', "where weights of the slowest memory are fetched to"),
        _line("via", f'"{chip.prefetch.via}"', "what all traffic of the slowest memory crosses"),
        "",
        "[noise]",
        _line("sigma", repr(chip.noise.sigma), "of the logarithm of a measured latency"),
        "",
        "# What the simulation counts.",
        "[effects]",
    ]
    lines += [_line(key, str(getattr(chip.effects, key)).lower(), why) for key, why in _EFFECTS.items()]
    for table, why in _FACTORS.items():
        factors = getattr(chip.factors, table)
        if factors:
            lines += ["", f"# {why}", f"[factors.{table}]"]
            lines += [f"{kind} = {factor!r}" for kind, factor in factors.items()]
    return "\n".join(lines) + "\n"


def _rate(value: float) -> str:
    """A number of the order of 1e9, exactly."""
    billions = f"{value / 1e9:g}e9"
    return billions if float(billions) == value else repr(float(value))


def _line(key: str, value: str, why: str) -> str:
    return f"{key} = {value}".ljust(36) + f" # {why}"
