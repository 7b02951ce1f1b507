"""What compiling kernels costs a command: `python tools/compile_times.py [--cache FOLDER] COMMAND…`.

Runs the command with an empty cache folder (XDG_CACHE_HOME; `--cache`: this one) and prints the seconds that all its
processes spent compiling kernels: in all, by kernel, by the file of the kernel, and by the file of the test that was
the first to need it. `python tools/compile_times.py make test` is the gate.

Source: numba's event "numba:compile", of which `hwsim/jit.py` writes a line each.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ROWS = 40
"""Of each table, at most; the last row sums up the rest."""


def main(argv: Sequence[str]) -> int:
    """The exit code of the command."""
    cache, command = (argv[1], argv[2:]) if argv[:1] == ["--cache"] else (None, argv)
    if not command:
        print(__doc__, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        times, empty = Path(folder) / "times", Path(folder) / "cache"
        times.mkdir()
        given = {"EGRL_COMPILE_TIMES": str(times), "XDG_CACHE_HOME": cache or str(empty)}
        code = subprocess.run(command, env={**os.environ, **given}, check=False).returncode
        show([json.loads(line) for path in times.iterdir() for line in path.read_text().splitlines()])
    return code


def show(compiled: Sequence[dict[str, Any]]) -> None:
    """Print the tables."""
    seconds = sum(each["seconds"] for each in compiled)
    different = {(each["kernel"], each["types"]) for each in compiled}
    print(f"{seconds:.1f} s of compiling, {len(compiled)} times; {len(different)} kernels by their types")
    again = defaultdict(list)
    for each in compiled:
        again[each["kernel"], each["types"]].append(each["seconds"])
    print(f"{sum(sum(own[1:]) for own in again.values()):.1f} s of them in a second process or later")
    for title, key in (("kernel", "kernel"), ("file of the kernel", "file"), ("test", "test")):
        table(title, ((_short(each[key]), each["types"], each["seconds"]) for each in compiled))


def table(title: str, rows: Iterable[tuple[str, str, float]]) -> None:
    """Seconds by name, the longest first."""
    total, count, types = (
        defaultdict[str, float](float),
        defaultdict[str, int](int),
        defaultdict[str, set[str]](set),
    )
    for name, kinds, seconds in rows:
        total[name] += seconds
        count[name] += 1
        types[name].add(kinds)
    print(f"\n{'seconds':>8} {'times':>6} {'types':>6}  {title}")
    order = sorted(total, key=lambda name: -total[name])
    for name in order[:ROWS]:
        print(f"{total[name]:8.2f} {count[name]:6} {len(types[name]):6}  {name}")
    if rest := order[ROWS:]:
        print(
            f"{sum(total[n] for n in rest):8.2f} {sum(count[n] for n in rest):6}         {len(rest)} others"
        )


def _short(name: str) -> str:
    """A path as seen from the project, or from the folder of packages."""
    path = name.removeprefix(f"{ROOT}/")
    return path.rpartition("site-packages/")[2] or "(none)"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
