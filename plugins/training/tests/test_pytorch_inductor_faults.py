"""What inductor gets wrong by itself is right within a limit."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks.kinds.compare import RIGHT, compare
from benchmarks.kinds.kind import KINDS, Compile, difference
from benchmarks.training_kinds import outcomes  # noqa: F401  (loads all kinds)
from torch import fx
from torch._guards import TracingContext, detect_fake_mode, tracing
from torch._inductor import config as _inductor
from torch.fx.experimental.proxy_tensor import make_fx

from compiling import QUIET, fresh  # noqa: F401  (a fixture of all)
from egrl_training import memory_limit
from egrl_training.pytorch import compiled
from egrl_training.pytorch.inductor_faults import (
    BEFORE_FUSION,
    KeepDraws,
    Rewrite,
    copy_old_values,
    give_own_room,
    mark_given,
    without_faults,
    write_factors_out,
)

inductor: Any = _inductor
pytestmark = QUIET
aten = torch.ops.aten
CLONE = torch.ops.aten.clone.default
KIND = "a memory moved twice by a custom op, between reads"


def _graph(function: object) -> fx.Graph:
    inputs = torch.ones(4, 4), torch.tensor([1, 2]), torch.ones(2, 4)
    graph = make_fx(function, tracing_mode="fake")(*inputs).graph
    copy_old_values(graph)
    give_own_room(graph)
    graph.lint()
    return graph


def _copies(graph: fx.Graph) -> int:
    return len(graph.find_nodes(op="call_function", target=CLONE))


def _put(buffer: torch.Tensor, rows: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return aten.index_put.default(buffer, [rows], x, True)


def test_a_result_that_is_returned_does_not_lie_in_the_buffer() -> None:
    def step(buffer: torch.Tensor, rows: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        first = _put(buffer, rows, x)
        aten.copy_.default(buffer, _put(first, rows, x))
        return first

    graph = _graph(step)
    (copy,) = graph.find_nodes(op="call_function", target=CLONE)
    (user,) = copy.users
    assert copy.args[0].op == "placeholder"
    assert user.target is aten.index_put.default


def test_nor_does_one_of_which_a_view_is_returned_or_what_a_later_op_made_of_it() -> None:
    def view(buffer: torch.Tensor, rows: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        first = _put(buffer, rows, x)
        aten.copy_.default(buffer, first)
        return first.t()

    def later(buffer: torch.Tensor, rows: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        second = aten.slice_scatter.default(_put(buffer, rows, x), x, 0, 0, 2)
        aten.copy_.default(buffer, second)
        return second[1]

    def of_a_view(buffer: torch.Tensor, rows: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        first = _put(buffer.t(), rows, x)
        aten.copy_.default(buffer, first.t())
        return first

    assert [_copies(_graph(step)) for step in (view, later, of_a_view)] == [1, 1, 1]


@pytest.mark.parametrize(
    ("reads", "again", "copies"), [(False, False, 0), (True, False, 1), (False, True, 1), (True, True, 2)]
)
def test_what_a_custom_op_changes_has_room_of_its_own_if_others_read_it(
    reads: bool, again: bool, copies: int
) -> None:
    graph = fx.Graph()
    buffer = graph.placeholder("buffer")
    state, results = buffer, []
    for _ in range(1 + again):
        state.meta["val"] = torch.empty(4, 4, device="meta")
        results += [graph.call_function(aten.cos.default, (state,))] if reads else []
        op = torch.ops.higher_order.auto_functionalized_v2
        moved = graph.call_function(op, (aten.mul_.Tensor,), {"_all_bases": [state]})
        state = graph.call_function(operator.getitem, (moved, 1))
    graph.call_function(aten.copy_.default, (buffer, state))
    graph.output(tuple(results))
    give_own_room(graph)
    assert _copies(graph) == copies


def test_a_result_that_is_read_before_the_buffer_becomes_it_needs_no_copy() -> None:
    def step(buffer: torch.Tensor, rows: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        first = _put(buffer, rows, x)
        read = first[1].cos()
        aten.copy_.default(buffer, first)
        return read

    def unchanged(buffer: torch.Tensor, rows: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return _put(buffer, rows, x)

    assert [_copies(_graph(each)) for each in (step, unchanged)] == [0, 0]


def test_the_factor_of_a_sum_is_a_product_of_its_own() -> None:
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.add(x, torch.add(x, y), alpha=3)

    graph = make_fx(step, tracing_mode="fake")(torch.ones(2), torch.ones(2)).graph
    write_factors_out(graph)
    graph.lint()
    assert not any(node.kwargs for node in graph.nodes)
    found = fx.GraphModule(torch.nn.Module(), graph)(torch.ones(2), torch.tensor([1.0, 2.0]))
    assert found.tolist() == [7.0, 10.0]


def _changing(function: Callable[[fx.Graph, fx.Node, fx.Node], fx.Node]) -> fx.Graph:
    """A graph of two inputs, of which the first changes to twice its value after what the function adds."""
    graph = fx.Graph()
    inputs = [graph.placeholder(name) for name in ("buffer", "other")]
    for node in inputs:
        node.meta["val"] = torch.empty(4, 4, device="meta")
    twice = graph.call_function(aten.mul.Tensor, (inputs[0], 2))
    result = function(graph, *inputs)
    change = graph.call_function(aten.copy_.default, (inputs[0], twice))
    graph.call_function(aten.copy_.default, (inputs[1], result))
    graph.output((result,))
    copy_old_values(graph)
    graph.lint()
    assert _copies(graph) == len(
        [node for node in graph.nodes if node.next is change and node.target is CLONE]
    )
    return graph


def test_an_input_is_copied_before_it_changes_if_it_is_read_or_returned_later() -> None:
    def itself(graph: fx.Graph, buffer: fx.Node, other: fx.Node) -> fx.Node:
        return buffer

    def view(graph: fx.Graph, buffer: fx.Node, other: fx.Node) -> fx.Node:
        shown = graph.call_function(aten.t.default, (buffer,))
        shown.meta["val"] = torch.empty(4, 4, device="meta")
        return shown

    def result(graph: fx.Graph, buffer: fx.Node, other: fx.Node) -> fx.Node:
        return graph.call_function(aten.sin.default, (buffer,))

    found = []
    for function in (itself, view, result):
        graph = _changing(function)
        found.append(_copies(graph))
        buffer, other = torch.ones(4, 4), torch.zeros(4, 4)
        fx.GraphModule(torch.nn.Module(), graph)(buffer, other)
        assert float(buffer[0, 0]) == 2.0
        assert float(other[0, 0]) in (1.0, float(torch.ones(()).sin()))
    assert found == [1, 1, 0]


def test_an_input_that_changes_twice_is_copied_once_before() -> None:
    graph = fx.Graph()
    buffer, other = (graph.placeholder(name) for name in ("buffer", "other"))
    for node in (buffer, other):
        node.meta["val"] = torch.empty(4, 4, device="meta")
    for value in (1.0, 2.0):
        result = graph.call_function(aten.full.default, ((4, 4), value))
        graph.call_function(aten.copy_.default, (buffer, result))
    graph.call_function(aten.copy_.default, (other, buffer))
    graph.output(())
    copy_old_values(graph)
    assert _copies(graph) == 1
    given = torch.zeros(4, 4), torch.ones(4, 4)
    fx.GraphModule(torch.nn.Module(), graph)(*given)
    assert [float(each[0, 0]) for each in given] == [2.0, 0.0]


def test_an_input_that_is_given_back_for_the_backward_pass_to_change_is_no_copy() -> None:
    """A returned copy, which inductor drops, is one again."""
    graph = fx.Graph()
    buffer = graph.placeholder("buffer")
    buffer.meta["val"] = torch.empty(4, 4, device="meta")
    kept = graph.call_function(CLONE, (buffer,))
    graph.call_function(aten.copy_.default, (buffer, graph.call_function(aten.mul.Tensor, (buffer, 2))))
    graph.output((buffer, kept))
    mark_given(graph)
    kept.replace_all_uses_with(buffer)
    graph.erase_node(kept)
    copy_old_values(graph)
    graph.lint()
    given = torch.ones(4, 4)
    itself, old = fx.GraphModule(torch.nn.Module(), graph)(given)
    assert itself is given
    assert float(given[0, 0]) == 2.0
    assert float(old[0, 0]) == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("gradients", [False, True])
def test_two_buffers_that_are_swapped_hold_what_the_other_held(gradients: bool) -> None:
    x = torch.ones(4, 4, requires_grad=gradients)

    def step(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        kept = one.clone()
        one.copy_(other)
        other.copy_(kept)
        one[2] = 7.0
        return (x * other).sin().sum()

    buffers = [torch.arange(16.0).view(4, 4) + 100 * n for n in range(2)]
    wanted = [each.clone() for each in buffers]
    with memory_limit("1 GiB", quiet=True):
        found = torch.compile(step)(*buffers)
    torch.testing.assert_close(found, step(*wanted))
    torch.testing.assert_close(buffers, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("gradients", [False, True])
def test_the_factor_of_a_matrix_product_that_is_added_counts(gradients: bool) -> None:
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.add(x, y @ x, alpha=0.1).sin()

    x, y = torch.linspace(-1, 1, 24).view(4, 6).requires_grad_(gradients), torch.full((4, 4), 0.5)
    # nothing that inductor writes to memory could be computed again: PyTorch cuts the graph
    with memory_limit("1 GiB", quiet=True):
        found = torch.compile(step)(x, y)
    torch.testing.assert_close(found, step(x, y))
    if gradients:
        found.sum().backward()
        wanted = torch.autograd.grad(step(x, y).sum(), x)[0]
        torch.testing.assert_close(x.grad, wanted)


@pytest.mark.slow
def test_code_for_one_backward_pass_is_not_taken_for_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))

    def gradients(passes: int, wrap: Compile) -> list[torch.Tensor]:
        torch.manual_seed(0)
        net = torch.nn.Sequential(
            torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 8), torch.nn.Tanh()
        )
        loss = wrap(net)(torch.ones(4, 8)).square().sum()
        for left in reversed(range(passes)):
            loss.backward(retain_graph=left > 0)
        return [parameter.grad for parameter in net.parameters() if parameter.grad is not None]

    with memory_limit(fraction=1.0, quiet=True):
        gradients(1, torch.compile)
        torch._dynamo.reset()
        found = gradients(2, torch.compile)
    assert difference(found, gradients(2, lambda net: net)) < 1e-5


@pytest.mark.slow
def test_inductor_is_right_where_it_is_wrong_by_itself() -> None:
    (kind,) = (each for each in KINDS if each.name == KIND)
    assert compare(kind, "inductor").word != RIGHT, "if PyTorch is right by now, give_own_room can go"
    found = compare(kind, "inductor", 1.0)
    assert found.word == RIGHT, str(found)


def test_passes_of_ones_own_come_before() -> None:
    own = Rewrite()
    assert isinstance(without_faults({})["post_grad_custom_post_pass"], Rewrite)
    for given in (own, [own]):
        first, second = without_faults({"post_grad_custom_post_pass": given})["post_grad_custom_post_pass"]
        assert first is own
        assert isinstance(second, Rewrite)


def test_draws_keep_their_order_where_another_takes_less_memory() -> None:
    """Inductor of PyTorch 2.13 by itself draws the small one first."""

    def step(x: torch.Tensor, small: torch.Tensor, large: torch.Tensor) -> tuple[torch.Tensor, ...]:
        aten.native_dropout.default((x @ large).relu(), 0.7, True)
        result, kept = aten.native_dropout.default((x @ small).sum(1).cos(), 0.2, True)
        return result.sum(), kept

    module = make_fx(step, tracing_mode="fake")(torch.ones(16, 64), torch.ones(64, 64), torch.ones(64, 4096))
    given = [node.meta["val"] for node in module.graph.find_nodes(op="placeholder")]
    with inductor.patch(fallback_random=True), tracing(TracingContext(detect_fake_mode(given))):
        code, _ = compiled._code(module, given, 2)
    assert re.findall(r"native_dropout\.default\(\w+, ([0-9.]+)", code) == ["0.7", "0.2"]


def test_a_pass_of_the_user_over_kernels_runs_before() -> None:
    seen: list[object] = []

    def mine(nodes: list[object]) -> list[object]:
        seen.extend(nodes)
        return nodes

    node = object()
    both = without_faults({BEFORE_FUSION: mine})[BEFORE_FUSION]
    assert both([node]) == [node]
    assert seen == [node]
    assert not isinstance(both, KeepDraws)  # of a function inductor's cache knows nothing
    assert isinstance(without_faults({})[BEFORE_FUSION], KeepDraws)
