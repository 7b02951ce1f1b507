"""Where a cost comes from, as lines of a report: op by op, chip by chip, or the nodes that pay the most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from egrl.runs.text import scaled, shown


def lines_of(explanation: Mapping[str, Any], unit: str) -> list[str]:
    """An explanation of `hwsim.explanation`, as a table has it, for people; `unit` is that of costs."""
    if "chips" in explanation:
        return _chips(explanation, unit)
    if "payers" in explanation:
        return _breakdown(explanation, unit)
    parts = sorted(explanation["seconds_bound_by"].items(), key=lambda part: (-part[1], part[0]))
    total = sum(seconds for _, seconds in parts)
    bound_by = [
        {"bound by": name, "us": f"{s * 1e6:.2f}", "share": f"{s / total:.1%}" if total else "-"}
        for name, s in parts
    ]
    return [*_table([_op_row(op) for op in explanation["ops"]]), "", *_table(bound_by), ""]


def _breakdown(breakdown: Mapping[str, Any], unit: str) -> list[str]:
    """The nodes that cost the most, and those in memory at the fullest time."""
    edges = any(payer["edge_cost"] for payer in breakdown["payers"])
    payers = [
        {
            "node": payer["node"],
            "choice": payer["choice"],
            "its cost": _cost(payer["own_cost"], unit),
            **({"its edges": f"{payer['edge_cost']:.0f}"} if edges else {}),
        }
        for payer in breakdown["payers"]
    ]
    holders = [
        {
            "node": holder["node"],
            "choice": holder["choice"],
            "uses": f"{holder['used']}",
            "share": f"{holder['used'] / max(1, breakdown['peak']):.1%}",
            "from": f"{holder['start']}",
            "until": f"{holder['end']}",
        }
        for holder in breakdown["holders"]
    ]
    parts = ", ".join(f"{name} {_cost(cost, unit)}" for name, cost in breakdown["parts"].items())
    share = f", {breakdown['peak'] / breakdown['limit']:.2%}" if breakdown["limit"] else ""
    return [
        f"the nodes that cost the most{', an edge shared by its two' if edges else ''}:",
        *(_table(payers) if payers else ["none"]),
        "",
        f"memory is fullest at time {breakdown['peak_time']}: {breakdown['peak']} of {breakdown['limit']}{share}",
        *(_table(holders) if holders else []),
        "",
        f"cost {_cost(breakdown['cost'], unit)} {shown(unit)}: {parts}",
        "",
    ]


def _cost(cost: float, unit: str) -> str:
    """A whole number as it is, seconds in what `shown` names."""
    return f"{cost}" if isinstance(cost, int) else f"{scaled(cost, unit):.2f}"


def _chips(partition: Mapping[str, Any], unit: str) -> list[str]:
    """The chips in use, and what takes the time."""
    rows = [
        {
            "chip": chip["name"],
            "nodes": f"{chip['nodes']}",
            f"busy {shown(unit)}": f"{scaled(chip['busy_s'], unit):.2f}",
            "weights KiB": f"{chip['weight_bytes'] / 1024:.1f}",
            "peak KiB": f"{chip['peak_bytes'] / 1024:.1f}",
            f"link {shown(unit)}": f"{scaled(chip['link_s'], unit):.2f}",
            "link KiB": f"{chip['link_bytes'] / 1024:.1f}",
        }
        for chip in partition["chips"]
        if chip["nodes"] or chip["link_bytes"]
    ]
    unused = len(partition["chips"]) - sum(chip["nodes"] > 0 for chip in partition["chips"])
    return [
        *_table(rows),
        "",
        f"slowest: {partition['bottleneck']}; {partition['stages']} stages, {unused} chips unused,"
        f" {partition['capacity_bytes'] / 1024:.0f} KiB a chip; a link leads to the next chip",
        "",
    ]


def _op_row(op: Mapping[str, Any]) -> dict[str, str]:
    row = {
        "op": op["name"],
        "weight": op["weight"] or "-",
        "activation": op["activation"] or "-",
        "start us": f"{op['start_s'] * 1e6:.2f}",
        "us": f"{op['duration_s'] * 1e6:.2f}",
        "bound by": op["bound_by"],
    }
    row |= {f"{memory} KiB": f"{size / 1024:.1f}" for memory, size in op["traffic_bytes"].items()}
    return row | {"prefetched KiB": f"{op['prefetched_bytes'] / 1024:.1f}"}


def _table(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Lines of aligned columns; numbers to the right."""
    names = list(rows[0])
    widths = [max(len(name), *(len(row[name]) for row in rows)) for name in names]
    words = {"op", "weight", "activation", "bound by"}
    lines = []
    for row in [dict(zip(names, names, strict=True)), *rows]:
        cells = [
            row[name].ljust(width) if name in words else row[name].rjust(width)
            for name, width in zip(names, widths, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return lines
