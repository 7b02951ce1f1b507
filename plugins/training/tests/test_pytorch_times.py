"""Timings of ops that a later process finds again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from compiling import QUIET, fresh  # noqa: F401  (a fixture of all)
from egrl_training.pytorch import kept_times
from egrl_training.pytorch import times as timing
from egrl_training.pytorch.capture import capture_joint
from egrl_training.pytorch.joint import JointGraph
from egrl_training.pytorch.peak import given_bytes
from egrl_training.pytorch.times import Times

pytestmark = QUIET


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ops that are timed from now on, with a cache folder of the test's own."""
    monkeypatch.setenv("EGRL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(timing, "ROUNDS", 1)
    seen: list[str] = []
    original = timing._measured
    monkeypatch.setattr(timing, "_measured", lambda node: seen.append(str(node.target)) or original(node))
    return seen


def joint() -> JointGraph:
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 1))
    return capture_joint(lambda x: model(x).square().sum(), torch.randn(8, 16))


@pytest.mark.slow
def test_a_later_process_does_not_time_again(measured: list[str]) -> None:
    graph = joint()
    times = Times({}, on_disk=True)
    first = times.measure(graph)
    estimated = sum(timing.estimated for timing in times.known.values())
    assert len(measured) > estimated
    measured.clear()
    again = Times({}, on_disk=True).measure(graph)
    assert len(measured) == estimated
    gelus = [[op.seconds for op in each.step.ops if "gelu" in op.kind] for each in (first, again)]
    assert gelus[0] == gelus[1]


def test_times_are_in_memory_alone_unless_asked_for(measured: list[str], tmp_path: Path) -> None:
    Times({}).measure(joint())
    assert measured
    assert not list(tmp_path.rglob("*.json"))


@pytest.mark.parametrize(
    ("owner", "name", "value"),
    [
        (torch, "__version__", "2.99.0"),
        (torch, "get_num_threads", lambda: 77),
        (kept_times.platform, "processor", lambda: "another"),
        (kept_times, "VERSION", 0),
    ],
)
def test_what_was_timed_otherwise_is_timed_again(
    measured: list[str], monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, value: Any
) -> None:
    graph = joint()
    Times({}, on_disk=True).measure(graph)
    measured.clear()
    monkeypatch.setattr(owner, name, value)
    Times({}, on_disk=True).measure(graph)
    assert measured


@pytest.mark.parametrize("text", ["", "[]", '{"a": 1}', '{"a": {"seconds": -1.0}}', "[" * 10000])
def test_a_damaged_file_is_made_again(measured: list[str], text: str) -> None:
    graph = joint()
    Times({}, on_disk=True).measure(graph)
    measured.clear()
    kept_times.file().write_text(text)
    Times({}, on_disk=True).measure(graph)
    assert measured
    assert json.loads(kept_times.file().read_text())


def test_a_folder_that_cannot_be_written_does_no_harm(
    measured: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EGRL_CACHE_DIR", str(tmp_path / "file"))
    assert Times({}, on_disk=True).measure(joint()).step.ops
    assert measured


def test_the_allocator_of_a_gpu_gives_whole_blocks() -> None:
    gpu, cpu = torch.device("cuda"), torch.device("cpu")
    assert [given_bytes(size, gpu) for size in (0, 1, 512, 513)] == [0, 512, 512, 1024]
    assert given_bytes(513, cpu) == 513


def test_what_a_gpu_makes_is_planned_with_what_its_allocator_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "ROUNDS", 1)
    graph = joint()
    sizes = [value.size_bytes for value in Times({}).measure(graph).step.values]
    monkeypatch.setattr(timing, "given_bytes", lambda size, device: 1000 * size)
    larger = [value.size_bytes for value in Times({}).measure(graph).step.values]
    made = [n for n, value in enumerate(graph.step.values) if not value.role]
    assert made
    assert all(larger[n] == 1000 * sizes[n] for n in made if sizes[n])


OTHER = """
import torch
from egrl_training.pytorch import kept_times
torch.set_num_threads({threads})
print("begins", flush=True)
with kept_times.alone():
    print(len(kept_times.read()))
"""


@pytest.mark.exhaustive
def test_one_process_measures_and_another_waits_and_reads_what_it_found(
    measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, order = joint(), []
    times = Times({}, on_disk=True)
    original = times._time_alone
    # timings hold for a number of threads, and another test may have set it
    program = OTHER.format(threads=torch.get_num_threads())

    def time_alone(*args: Any) -> None:
        other = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        assert other.stdout is not None
        assert other.stdout.readline() == "begins\n"
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(1.0)
        order.append(other)
        original(*args)

    monkeypatch.setattr(times, "_time_alone", time_alone)
    times.measure(graph)
    found = sum(not timing.estimated for timing in times.known.values())
    assert int(order[0].communicate()[0]) == found > 0


def test_estimated_times_are_not_kept(measured: list[str]) -> None:
    kept_times.write({"a": timing.Timing(1.0, 0, (), estimated=True), "b": timing.Timing(1.0, 2, (3,))})
    assert kept_times.read() == {"b": timing.Timing(1.0, 2, (3,))}


@torch.library.custom_op("egrl_test::drawn", mutates_args=(), tags=(torch.Tag.nondeterministic_seeded,))
def drawn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns what was drawn, and the state that it was drawn with."""
    return 2 * x, torch.tensor(7)


@drawn.register_fake
def _(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(x), torch.empty((), dtype=torch.int64)


@torch.library.custom_op("egrl_test::drawn_backward", mutates_args=(), tags=(torch.Tag.pointwise,))
def drawn_backward(gradient: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
    """Fails with a state that `drawn` did not make, as attention on a GPU ends the process."""
    if state.item() != 7:
        raise ValueError("a made-up state")
    return 2 * gradient


@drawn_backward.register_fake
def _(gradient: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(gradient)


def keep_state(ctx: Any, inputs: Any, output: Any) -> None:
    """What the backward pass needs."""
    ctx.save_for_backward(output[1])


drawn.register_autograd(
    lambda ctx, gradient, _: drawn_backward(gradient, *ctx.saved_tensors), setup_context=keep_state
)


def test_an_op_that_reads_the_state_of_random_numbers_gets_a_true_one(measured: list[str]) -> None:
    times = Times({})
    times.measure(capture_joint(lambda x: drawn(x)[0].sum(), torch.randn(8, requires_grad=True)))
    backward = [timing for key, timing in times.known.items() if "drawn_backward" in key]
    assert [timing.estimated for timing in backward] == [False]
