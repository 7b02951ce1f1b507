"""Machine code on disk: loaded for equal sources, never for others, and never kept beside the package."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import time
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gate import gate
from hwsim import kernel_cache
from workloads.files import cache_folder

ROOT = Path(__file__).resolve().parents[2]
FILES = {
    "kernel_helper": """
from enum import IntEnum
from typing import NamedTuple
from hwsim.jit import kernel
import kernel_deeper
SCALE = 10

class Pair(NamedTuple):
    first: int
    second: int

class Kind(IntEnum):
    SMALL = 0

@kernel
def twice(x):
    return 2 * kernel_deeper.plus(x)
""",
    "kernel_deeper": """
from hwsim.jit import kernel

@kernel
def plus(x, more=1):
    return x + more
""",
    "kernel_caller": """
from hwsim.jit import kernel
from kernel_helper import SCALE, Kind, Pair, twice

@kernel
def answer(pair: Pair) -> int:
    return SCALE * twice(pair.first) + Kind.SMALL

RESULT = answer(Pair(3, 4))
HITS = sum(answer.stats.cache_hits.values())
""",
}
CHANGES = {
    "a kernel of another file": ("kernel_helper", "return 2 *", "return 3 *", 120),
    "a kernel that this one calls": ("kernel_deeper", "x + more", "x + 2 * more", 100),
    "a default of another file": ("kernel_deeper", "more=1", "more=2", 100),
    "a constant of another file": ("kernel_helper", "SCALE = 10", "SCALE = 11", 88),
    "an enumeration of another file": ("kernel_helper", "SMALL = 0", "SMALL = 5", 85),
    "the order of fields": ("kernel_helper", "first: int\n    second", "second: int\n    first", 100),
}


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    """An empty cache folder."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr("numba.core.config.CACHE_DIR", "")
    monkeypatch.setenv("EGRL_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "kernels"


def write(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name, text in FILES.items():
        (folder / f"{name}.py").write_text(text)


def run(folder: Path, monkeypatch) -> tuple[int, int]:
    """The answer of the program in a folder, imported afresh, and how often its machine code came from disk."""
    for each in (kernel_cache._file_digest, kernel_cache._ensure_writable, kernel_cache._tidy):
        each.cache_clear()
    with monkeypatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.setattr(sys, "dont_write_bytecode", True)
        for name in FILES:
            patch.delitem(sys.modules, name, raising=False)
        caller = importlib.import_module("kernel_caller")
        for name in FILES:
            sys.modules.pop(name)
    return caller.RESULT, caller.HITS


@pytest.mark.slow
@pytest.mark.parametrize(
    "change", gate(CHANGES, ("a kernel that this one calls", "a constant of another file"))
)
def test_a_kernel_is_compiled_anew_when_what_it_takes_from_another_file_changes(
    tmp_path, cache, monkeypatch, change
):
    write(tmp_path)
    assert run(tmp_path, monkeypatch) == (80, 0)
    assert run(tmp_path, monkeypatch) == (80, 1)
    name, old, new, answer = CHANGES[change]
    file = tmp_path / f"{name}.py"
    file.write_text(file.read_text().replace(old, new))
    assert run(tmp_path, monkeypatch) == (answer, 0)
    assert run(tmp_path, monkeypatch) == (answer, 1)
    file.write_text(file.read_text().replace(new, old))
    assert run(tmp_path, monkeypatch) == (80, 1), "both versions are kept"


def test_another_copy_of_the_sources_compiles_nothing_and_nothing_lies_beside_them(
    tmp_path, cache, monkeypatch
):
    for name, hits in (("one", 0), ("other", 1)):
        write(tmp_path / name)
        assert run(tmp_path / name, monkeypatch) == (80, hits)
    assert len(list(cache.glob("*.nbc"))) == 3
    assert sorted(file.name for file in tmp_path.rglob("*") if file.suffix in (".nbi", ".nbc")) == sorted(
        file.name for file in cache.glob("*.nbc")
    )


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_copy_of_the_package_in_another_folder_compiles_nothing(tmp_path, cache):
    """Two processes, each with its own copy of `hwsim` and `workloads`."""
    program = (
        "import hwsim, numpy as np\n"
        "from hwsim import keys\n"
        "keys.derive(np.arange(3, dtype=np.uint64), 0)\n"
        "print(hwsim.__file__, sum(keys._derive.stats.cache_misses.values()))\n"
    )
    for name, misses in (("one", "1"), ("other", "0")):
        copy = tmp_path / name
        for room in ("hwsim", "workloads"):
            shutil.copytree(ROOT / room, copy / room, ignore=shutil.ignore_patterns("__pycache__"))
        # The copy comes before the installed package, whose import hook would come before PYTHONPATH.
        argv = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(copy)!r})\n{program}"]
        done = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=tmp_path)
        assert done.stdout.split() == [str(copy / "hwsim" / "__init__.py"), misses]
        assert not [file for file in copy.rglob("*") if file.suffix in (".nbi", ".nbc")]


@pytest.mark.parametrize("damage", [pytest.param(b"", marks=pytest.mark.exhaustive), b"short", None])
def test_a_damaged_file_is_compiled_anew(tmp_path, cache, monkeypatch, damage):
    write(tmp_path)
    assert run(tmp_path, monkeypatch) == (80, 0)
    for file in cache.glob("*.nbc"):
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data if damage is None else damage)
    assert run(tmp_path, monkeypatch) == (80, 0)
    assert run(tmp_path, monkeypatch) == (80, 1)


@pytest.mark.slow
def test_many_writers_of_one_folder_leave_whole_files(tmp_path):
    def work(number: int) -> None:
        files = kernel_cache._Files(tmp_path, "m.f", "d" * 64)
        for _ in range(10):
            for key in range(3):
                files.save(("key", key), ("code", key, "x" * 10_000))
                assert files.load(("key", key)) == ("code", key, "x" * 10_000)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert len(list(tmp_path.iterdir())) == 3


def test_a_file_under_the_name_of_another_key_is_not_loaded(tmp_path, monkeypatch):
    files = kernel_cache._Files(tmp_path, "m.f", "d" * 64)
    files.save("one", "code")
    monkeypatch.setattr(files, "path", lambda key: next(tmp_path.iterdir()))
    assert files.load("one") == "code"
    assert files.load("other") is None


def test_code_for_a_type_that_has_moved_since_is_not_loaded(tmp_path, monkeypatch):
    module = types.ModuleType("kernel_types_of_old")
    exec("class Moved(tuple): pass", module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    files = kernel_cache._Files(tmp_path, "name", "digest")
    key = ("argument", module.Moved)
    files.save(key, "code")
    assert files.load(key) == "code"
    monkeypatch.delitem(sys.modules, module.__name__)
    assert files.load(key) is None
    monkeypatch.setitem(sys.modules, module.__name__, types.ModuleType(module.__name__))
    assert files.load(key) is None


def test_what_is_old_is_removed_then_the_least_recently_used_of_what_is_too_much(tmp_path, monkeypatch):
    day, now = 86_400, time.time()
    ages = {
        "old.nbc": 61,
        "a.nbc": 3,
        "b.nbc": 1.9,
        "c.nbc": 1,
        "left.tmp": 2,
        "begun.tmp": 0,
        "other.txt": 99,
    }
    for name, days in ages.items():
        (tmp_path / name).write_bytes(b"x" * 100)
        os.utime(tmp_path / name, (now - days * day - 60,) * 2)
    kernel_cache._tidy.cache_clear()
    monkeypatch.setattr(kernel_cache, "MOST_BYTES", 350)
    kernel_cache._Files(tmp_path, "m.f", "d" * 64).save("key", "code")
    left = sorted(file.name for file in tmp_path.iterdir() if not file.name.startswith("m.f"))
    assert left == ["b.nbc", "begun.tmp", "c.nbc", "other.txt"]


def test_loading_marks_a_file_as_used(tmp_path):
    files = kernel_cache._Files(tmp_path, "m.f", "d" * 64)
    files.save("key", "code")
    (file,) = tmp_path.iterdir()
    os.utime(file, (1e9, 1e9))
    begun_s = time.time()
    assert files.load("key") == "code"
    assert file.stat().st_mtime > begun_s - 60  # clocks of file systems are late by some milliseconds


def test_the_folder_is_the_one_that_the_user_names(tmp_path, monkeypatch):
    monkeypatch.setattr("numba.core.config.CACHE_DIR", "")
    monkeypatch.delenv("EGRL_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/someone")
    assert kernel_cache.folder() == Path("/home/someone/.cache/egrl/kernels")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert kernel_cache.folder() == Path("/caches/egrl/kernels")
    monkeypatch.setenv("EGRL_CACHE_DIR", "/mine")
    assert cache_folder() == Path("/mine")
    assert kernel_cache.folder() == Path("/mine/kernels")
    monkeypatch.setattr("numba.core.config.CACHE_DIR", "/numbas")
    assert kernel_cache.folder() == Path("/numbas/egrl")
