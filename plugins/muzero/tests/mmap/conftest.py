"""Makes the plain twins and the strategies of the game importable."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[3] / "tests" / "hwsim" / "mmap")]
