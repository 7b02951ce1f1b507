"""The quick tests with every Python, the lowest and the newest libraries: `python tools/versions.py [NAME…]`.

`lowest` takes the lowest version of each library that pyproject.toml allows (uv's resolution `lowest-direct`), `newest`
the newest. Interpreters are looked for on PATH (`python3.12`) and among those of pyenv; one that is not there is
skipped, and said to be. NAMEs choose among `lowest-3.11`, `newest-3.11` and so on. What is installed stays in
build/versions, a folder each (some GB: PyTorch); `UV_TORCH_BACKEND=cpu` has uv take PyTorch's CPU build.
Exit code 1 if tests fail or something cannot be installed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "versions"
QUICK = ("-m", "not slow and not exhaustive", "--hypothesis-profile=quick", "--dist", "loadscope", "--quiet")


class Combination(NamedTuple):
    """A Python, and which versions of the libraries."""

    python: str
    resolution: str

    @property
    def name(self) -> str:
        """For people and folders."""
        return f"{self.resolution.partition('-')[0].replace('highest', 'newest')}-{self.python}"


COMBINATIONS = (
    Combination("3.11", "lowest-direct"),
    Combination("3.11", "highest"),
    Combination("3.12", "highest"),
    Combination("3.13", "highest"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tests of each combination, and print a line for each; 1 if one fails."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help=", ".join(c.name for c in COMBINATIONS))
    parser.add_argument("--jobs", default="2", help="processes of the tests")
    parser.add_argument("--tests", default="", help="of which folder or file [all]")
    args = parser.parse_args(argv)
    if unknown := set(args.names) - {c.name for c in COMBINATIONS}:
        parser.error(f"expected {', '.join(c.name for c in COMBINATIONS)}; found {', '.join(unknown)}")
    lines = []
    for combination in COMBINATIONS:
        if not args.names or combination.name in args.names:
            lines.append(f"{combination.name}: {tried(combination, args.jobs, args.tests.split())}")
            print(lines[-1], flush=True)
    return int(any(": failed" in line for line in lines))


def tried(combination: Combination, jobs: str, tests: Sequence[str]) -> str:
    """What became of a combination, in a line."""
    interpreter = found(combination.python)
    if interpreter is None:
        return f"skipped: Python {combination.python} not found"
    python, uv = FOLDER / combination.name / "bin" / "python", _uv()
    if not python.exists():
        subprocess.run([uv, "venv", "--quiet", "--python", interpreter, python.parents[1]], check=True)
    install = [uv, "pip", "install", "--quiet", "--python", python, "--resolution", combination.resolution]
    editable = [
        word for at in (".[dev]", *sorted(ROOT.glob("plugins/*/"))) for word in ("--editable", str(at))
    ]
    done = subprocess.run([*install, *editable], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        return f"failed: not installed: {' '.join(done.stderr.split())[:300]}"
    begun = time.monotonic()
    command = [python, "-m", "pytest", *QUICK, "-n", jobs, *tests]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    log = FOLDER / f"{combination.name}.log"
    log.write_text(done.stdout)
    last = (done.stdout.strip().splitlines() or ["it said nothing"])[-1]
    verdict = "failed: " if done.returncode else ""
    return f"{verdict}{last} ({time.monotonic() - begun:.0f} s; {log.relative_to(ROOT)})"


def found(version: str) -> str | None:
    """The path of an interpreter of this version; None where there is none."""
    places = [Path(folder) / f"python{version}" for folder in os.environ.get("PATH", "").split(os.pathsep)]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    places += sorted(pyenv.glob(f"{version}.*/bin/python"))
    for place in places:
        if not place.is_file():
            continue
        asked = subprocess.run(
            [place, "-c", "import sys; print(sys.version)"], capture_output=True, text=True
        )
        if asked.returncode == 0 and asked.stdout.startswith(f"{version}."):
            return str(place)
    return None


def _uv() -> Path:
    """uv in a folder of its own, so that nothing is installed beside what is tested."""
    folder = FOLDER / "uv"
    if not (folder / "bin" / "uv").exists():
        venv.create(folder, with_pip=True)
        subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", "uv"], check=True)
    return folder / "bin" / "uv"


if __name__ == "__main__":
    sys.exit(main())
