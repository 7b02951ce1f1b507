"""Programs that find code outside the package: an environment, and commands run one after the other."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from egrl.cli.main import main

ROOT = Path(__file__).resolve().parents[1]
DRIVER = """
import contextlib, io, json, sys
from egrl.cli.main import main
if __name__ == "__main__":
    told = []
    for argv in json.loads(sys.argv[1]):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(argv)
        told.append([code, out.getvalue(), err.getvalue(), sorted(sys.modules)])
    print(json.dumps(told))
"""


def environment(*folders: Path) -> dict[str, str]:
    """Variables with which a new process finds this package, and what is installed in the folders."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, *folders)))}


def install(package: Path, target: Path) -> None:
    """Install a package from its folder, which the build leaves its traces in."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    flags = ["--no-build-isolation", "--no-deps", "--no-index", "--target", str(target), str(package)]
    subprocess.run([*pip, *flags], check=True, capture_output=True)


def run_all(
    commands: Sequence[Sequence[str]], folder: Path, *installed: Path
) -> list[tuple[int, str, str, set[str]]]:
    """Run commands in a folder, in one new process that has the folder not on its path.

    Of each: exit code, stdout, stderr, and the modules that are loaded after it.
    """
    driver = folder.parent / "driver.py"
    driver.write_text(DRIVER, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-P", str(driver), json.dumps([list(argv) for argv in commands])],
        cwd=folder,
        env=environment(*installed),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [
        (code, out, err, set(modules)) for code, out, err, modules in json.loads(done.stdout.splitlines()[-1])
    ]


def run_here(commands: Sequence[Sequence[str]], folder: Path) -> list[tuple[int, str, str]]:
    """Run commands in a folder, in this process, which forgets the modules that they find there."""
    told = []
    with contextlib.chdir(folder):
        for argv in commands:
            out, err, before = io.StringIO(), io.StringIO(), set(sys.modules)
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = main(list(argv))
            told.append((code, out.getvalue(), err.getvalue()))
            for name in sys.modules.keys() - before:
                if folder in Path(getattr(sys.modules[name], "__file__", None) or "/").parents:
                    del sys.modules[name]
    return told
