"""How the names of files that hold programs end."""

from __future__ import annotations

HLO = (".hlo", ".hlo.gz", ".txt")
"""HLO text."""
PACKED = ".json.xz"
"""A program's own JSON, packed; unpacked it ends like a workload's."""
PROGRAMS = (*HLO, PACKED)
"""What can be nothing but a program, by its name."""
