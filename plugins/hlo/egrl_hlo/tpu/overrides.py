"""XLA's order of buffers, changed: `xla_tpu_msa_sort_order_overrides`.

XLA's memory-space assignment places buffers in an order, the first ones where they like best. The option moves those
that a matcher names to the front or to the end of the order; it places nothing itself. So a mapping is handed over as
far as an order can say it: what it has in fast memory and XLA had not comes first, what XLA had there and it has not
comes last.

The fewest that matter: tensors by the traffic that changes its memory, the largest first, until they have `SHARE` of
all that changes; `MOST` at most.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from workloads.programs.compiled import DROP
from workloads.programs.program import Program

OPTION = "xla_tpu_msa_sort_order_overrides"
SHARE, MOST = 0.9, 12


@dataclass(frozen=True)
class Override:
    """A buffer of XLA's and where it goes in the order.

    Attributes:
        instruction, leaf: what writes it; -1: it is no part of a tuple.
        first: whether it comes first or last.
        traffic_bytes: what its uses move that change their memory.
    """

    instruction: str
    leaf: int
    first: bool
    traffic_bytes: int

    @property
    def text(self) -> str:
        """As the option takes it: a protocol buffer in text form."""
        pattern = re.escape(self.instruction).replace("\\", "\\\\")
        index = f" tuple_index {{ index: {self.leaf} }}" if self.leaf >= 0 else ""
        way = "assign_first" if self.first else "assign_last"
        return (
            f'overrides {{ hlo_position_matcher {{ instruction_name_regex: "{pattern}"{index} }}'
            f" override_options {{ {way}: true }} }}"
        )


def overrides(
    program: Program, before: Sequence[int], after: Sequence[int], share: float = SHARE, most: int = MOST
) -> list[Override]:
    """The overrides that lead from one mapping to another: [N] actions (drop, copy, nocopy), of which -1 is a drop."""
    changed = [0] * len(program.tensors)
    for use, old, new in zip(program.buffers, before, after, strict=True):
        changed[use.tensor] += ((new > DROP) - (old > DROP)) * use.traffic_bytes
    order = sorted((t for t, moved in enumerate(changed) if moved), key=lambda t: (-abs(changed[t]), t))
    wanted = share * sum(map(abs, changed))
    found: list[Override] = []
    for tensor in order[:most]:
        if sum(each.traffic_bytes for each in found) >= wanted:
            break
        name, _, leaf = program.tensors[tensor].name.partition("#")
        found.append(Override(name, int(leaf) if leaf else -1, changed[tensor] > 0, abs(changed[tensor])))
    return found


def options(found: Sequence[Override]) -> dict[str, str]:
    """The compiler options for `lowered.compile(compiler_options=…)`; none where nothing is overridden."""
    return {OPTION: " ".join(each.text for each in found)} if found else {}
