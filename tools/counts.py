"""How large the house is: lines of the six rooms, files in `egrl/`, and what a run passes before it measures.

    python tools/counts.py

The last numbers are of `egrl run` with its defaults until the first mapping is about to be measured: the files of the
six rooms that are imported, and the files and functions of `egrl/` that are called.
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
import inspect, os, sys
from importlib.machinery import PathFinder
from egrl.__main__ import entry

called = set()

def note(frame, event, _):
    code = frame.f_code
    if event == "call" and code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<"):
        called.add((code.co_filename, code.co_qualname))

def submit(self, proposals, key):
    sys.setprofile(None)
    print("\\n".join(f"{{file}}\t{{name}}" for file, name in sorted(called)))
    print()
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
sys.setprofile(note)
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


def passed() -> tuple[list[str], list[tuple[str, str]]]:
    """What a run with defaults passes before its first evaluation.

    The files of the six rooms, relative to the root, that it loads; file and name of the functions of `egrl/` that it
    calls.
    """
    with tempfile.TemporaryDirectory() as folder:
        child = [sys.executable, "-c", CHILD, f"{folder}/run"]
        said = subprocess.run(child, cwd=ROOT, capture_output=True, text=True, check=False)
    if said.returncode or not said.stdout:
        raise RuntimeError(f"passed: expected the names of files, received {said.stderr or 'none'}")
    called, loaded = (part.splitlines() for part in said.stdout.split("\n\n"))
    functions = [(_room_file(file), name) for file, name in (line.split("\t") for line in called)]
    return (
        [file for file in map(_room_file, loaded) if file],
        [(file, name) for file, name in functions if file.startswith("egrl/")],
    )


def _room_file(name: str) -> str:
    """A file of the six rooms relative to the root; "": it is another one."""
    path = Path(name)
    inside = path.relative_to(ROOT) if path.is_relative_to(ROOT) else Path("-")
    return inside.as_posix() if inside.parts[0] in ROOMS else ""


def main() -> int:
    """Print the counts."""
    rooms = lines()
    print(
        f"lines of the six rooms: {sum(rooms.values()):,} ({', '.join(f'{r} {n:,}' for r, n in rooms.items())})"
    )
    print(f"files in egrl/: {files()}")
    loaded, called = passed()
    print(
        f"from argv to the first evaluation: {len(loaded)} files loaded; of egrl/ {len(called)} functions called in"
        f" {len({file for file, _ in called})} files"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
