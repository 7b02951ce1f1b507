"""What libraries print is lost within `no_prints`, and nothing else."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import ctypes
from egrl_training.quiet import no_prints
C = ctypes.CDLL(None)
C.printf(b"before\\n")
with no_prints():
    C.printf(b"within\\n")
C.printf(b"after\\n")
C.fflush(None)
"""


def test_what_a_library_prints_meanwhile_is_lost() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["before", "after"]
