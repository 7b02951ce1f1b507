"""How large the house is: lines of the six rooms, files in `egrl/`, and files that a run loads before it measures.

    python tools/counts.py

The last number is of `egrl run` with its defaults: the files of the six rooms that are imported when the first mapping
is about to be measured.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("egrl", "population", "policies", "hwsim", "workloads", "analysis")
RUN = ("run", "--workload", "bert", "--evals", "1", "--quiet")
CHILD = f"""
import os, sys
from importlib.machinery import PathFinder
from egrl.__main__ import entry

def submit(self, proposals, key):
    files = [getattr(module, "__file__", None) or "" for module in list(sys.modules.values())]
    print("\\n".join(sorted({{file for file in files if file.endswith(".py")}})), flush=True)
    os._exit(0)

class Stop:  # replaces the executor's method once its file is loaded, which this must not do itself
    def find_spec(self, name, path, target=None):
        if name != "egrl.measure.local":
            return None
        spec = PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module
        def and_replace(module):
            execute(module)
            module.InProcess.submit = submit
        spec.loader.exec_module = and_replace
        return spec

sys.meta_path.insert(0, Stop())
sys.argv = ["egrl", *{RUN!r}, "--out", sys.argv[1]]
entry()
"""


def lines(root: Path = ROOT) -> dict[str, int]:
    """Lines of Python in each of the six rooms."""
    return {room: sum(_lines(path) for path in (root / room).rglob("*.py")) for room in ROOMS}


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def files(root: Path = ROOT) -> int:
    """Python files in `egrl/`."""
    return sum(1 for _ in (root / "egrl").rglob("*.py"))


def loaded() -> list[str]:
    """Files of the six rooms, relative to the root, that a run with defaults loads before its first evaluation."""
    with tempfile.TemporaryDirectory() as folder:
        child = [sys.executable, "-c", CHILD, f"{folder}/run"]
        said = subprocess.run(child, cwd=ROOT, capture_output=True, text=True, check=False)
    if said.returncode or not said.stdout:
        raise RuntimeError(f"loaded: expected the names of files, received {said.stderr or 'none'}")
    paths = [Path(line) for line in said.stdout.splitlines()]
    inside = [path.relative_to(ROOT) for path in paths if path.is_relative_to(ROOT)]
    return [str(path) for path in inside if path.parts[0] in ROOMS]


def main() -> int:
    """Print the three counts."""
    rooms = lines()
    print(
        f"lines of the six rooms: {sum(rooms.values()):,} ({', '.join(f'{r} {n:,}' for r, n in rooms.items())})"
    )
    print(f"files in egrl/: {files()}")
    print(f"files loaded from argv to the first evaluation: {len(loaded())}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
