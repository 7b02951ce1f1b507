"""Processes that need the same kernel at once: one compiles it, and nobody waits for one that does not go on."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from numba.core.errors import TypingError

from hwsim import kernel_turns

ROOT = Path(__file__).resolve().parents[2]
KERNELS = """
from hwsim.jit import kernel

@kernel
def plus(x):
    return x + 1

@kernel
def twice(x):
    return 2 * plus(x)

@kernel
def wrong(x):
    return x.nothing
"""
HOLDER = """
import sys
from pathlib import Path
from hwsim import kernel_turns
kernel_turns.take(Path(sys.argv[1]), "one")
print("taken", flush=True)
sys.stdin.read()
"""
"""Has a turn until its input ends."""


@pytest.fixture
def held(tmp_path):
    """A process that has the turn of "one" in a folder."""
    argv = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(
        argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "taken\n"
        yield process


def test_a_turn_is_one_process_s_until_it_gives_it_back_or_ends(tmp_path, held, monkeypatch):
    monkeypatch.setattr(kernel_turns, "LONGEST_S", 0.0)
    assert not kernel_turns.take(tmp_path, "one")
    assert kernel_turns.take(tmp_path, "another")
    held.communicate()
    assert kernel_turns.take(tmp_path, "one")
    kernel_turns.give_back(tmp_path, "one")


def test_who_waits_goes_on_when_the_turn_is_given_back(tmp_path, held, monkeypatch):
    """The holder ends at the first look, so that nothing hangs on how long anything takes."""
    monkeypatch.setattr(kernel_turns, "LONGEST_S", 1e6)
    looks: list[float] = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        held.communicate()

    monkeypatch.setattr(kernel_turns.time, "sleep", sleep)
    assert kernel_turns.take(tmp_path, "one")
    assert looks == [kernel_turns.POLL_S]


def test_each_turn_ends_when_its_kernel_is_kept_or_cannot_be_compiled(tmp_path, monkeypatch):
    monkeypatch.setenv("EGRL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "turned.py").write_text(KERNELS)
    happened: list[str] = []
    for name in ("take", "give_back"):
        monkeypatch.setattr(
            kernel_turns, name, lambda _, file, name=name: happened.append(f"{name} {file.split('-')[0]}")
        )
    from turned import twice, wrong

    with pytest.raises(TypingError):
        wrong(3)
    assert happened == ["take turned.wrong", "give_back turned.wrong"]
    assert twice(3) == 8
    order = [("take", "twice"), ("take", "plus"), ("give_back", "plus"), ("give_back", "twice")]
    assert happened[2:] == [f"{what} turned.{kernel}" for what, kernel in order]


@pytest.mark.slow
@pytest.mark.exhaustive
def test_of_processes_that_begin_at_once_one_compiles_each_kernel_and_what_fails_stops_nobody(tmp_path):
    (tmp_path / "kernels.py").write_text(KERNELS)
    times = tmp_path / "times"
    times.mkdir()
    program = (
        "import sys\nfrom numba.core.errors import TypingError\nfrom kernels import twice, wrong\n"
        "print('ready', flush=True)\nsys.stdin.readline()\n"
        "for each in (wrong, twice):\n"
        "    try:\n        print(each(3), flush=True)\n"
        "    except TypingError:\n        print('wrong', flush=True)\n"
        "sys.stdin.read()\n"
    )
    env = {
        "PYTHONPATH": f"{ROOT}:{tmp_path}",
        "PATH": "",
        "EGRL_CACHE_DIR": str(tmp_path / "cache"),
        "EGRL_COMPILE_TIMES": str(times),
    }
    pipes: dict = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": env}
    with contextlib.ExitStack() as running:
        start = [subprocess.Popen([sys.executable, "-c", program], **pipes) for _ in range(2)]
        processes = [running.enter_context(each) for each in start]
        for each in processes:
            assert each.stdout.readline() == "ready\n"
        for each in processes:
            each.stdin.write("go\n")
            each.stdin.flush()
        # all of them live until the last has its answer: no turn ends because its process does
        said = [[each.stdout.readline(), each.stdout.readline()] for each in processes]
        assert said == [["wrong\n", "8\n"]] * 2
    compiled = [
        json.loads(line)["kernel"] for file in times.iterdir() for line in file.read_text().splitlines()
    ]
    assert sorted(compiled) == ["kernels.plus", "kernels.twice", *["kernels.wrong"] * 2]
