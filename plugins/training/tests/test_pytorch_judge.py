"""The judge of graphs: it passes what is planned, and refuses graphs that were broken by hand in a dozen ways."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import fx, nn
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.debugging import boxed_nop

import egrl_training as training
from compiling import QUIET, fresh  # noqa: F401  (a fixture of all)
from egrl_training.pytorch import backend
from egrl_training.pytorch.joint import JointGraph, clean, read_joint
from egrl_training.pytorch.judge import Meaning, WrongGraphsError
from egrl_training.pytorch.partition import Cut, partition
from gate import gate

pytestmark = QUIET
aten = torch.ops.aten


class Changing(nn.Module):
    """Reads a mean and a gate before, and a table after a change, and draws twice."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)
        self.register_buffer("mean", torch.zeros(8))
        self.register_buffer("table", torch.ones(8, 16))
        self.register_buffer("gate", torch.ones(16, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.a(x - self.mean).sin() * self.gate.exp()
        first, second = torch.rand_like(y), torch.rand_like(y)
        self.mean.lerp_(x.mean(0), 0.5)
        self.table.add_(1)
        self.gate.mul_(0.5)
        z = self.b(y * first + second).exp()
        part = self.table.t()[:, :4].exp() * z[:, :4]
        return part.square().mean() + z.cos().mean()


@dataclass
class Graphs:
    """A joint graph's meaning and its two graphs, which a test may break."""

    meaning: Meaning
    joint: JointGraph
    forward: fx.Graph
    backward: fx.Graph

    def check(self) -> None:
        self.meaning.check(self.forward, self.backward)


def graphs_of(module: nn.Module, *inputs: Any) -> Graphs:
    found: list[Graphs] = []

    def cut(gm: fx.GraphModule, _: Any, **known: Any) -> tuple[fx.GraphModule, fx.GraphModule]:
        outputs = known["num_fwd_outputs"]
        _read_gate_itself(gm.graph)
        meaning = Meaning(gm.graph, outputs)
        joint = read_joint(clean(gm), outputs, known.get("static_lifetime_input_indices") or (), "net")
        forward, backward = partition(joint, Cut(()))
        found.append(Graphs(meaning, joint, forward.graph, backward.graph))
        return forward, backward

    compiler = aot_autograd(fw_compiler=boxed_nop, partition_fn=cut, keep_inference_input_mutations=True)
    torch.compile(module, backend=compiler)(*inputs).backward()
    return found[0]


def _read_gate_itself(joint: fx.Graph) -> None:
    """Let the backward pass read a tensor that is changed, of which PyTorch reads only what was computed before."""
    gate = next(node for node in joint.nodes if node.target is aten.exp.default)
    backward = max(gate.users, key=list(joint.nodes).index)
    backward.replace_input_with(gate, gate.args[0])


@pytest.fixture
def graphs() -> Graphs:
    return graphs_of(Changing(), torch.randn(16, 8))


def _nodes(graph: fx.Graph, target: Any) -> list[fx.Node]:
    return list(graph.find_nodes(op="call_function", target=target))


def _written_before(graph: fx.Graph, reader: fx.Node, name: str) -> None:
    """Move the change of a given tensor, and what it is made of, before a reader of the tensor."""
    (change,) = [node for node in _nodes(graph, aten.copy_.default) if node.args[0].name == name]
    needed, waiting = {change}, [change]
    while waiting:
        for source in waiting.pop().all_input_nodes:
            if source.op != "placeholder" and source not in needed:
                needed.add(source)
                waiting.append(source)
    for node in [node for node in graph.nodes if node in needed]:
        reader.prepend(node)


def _update_first(graphs: Graphs) -> None:
    (reader,) = _nodes(graphs.forward, aten.sub.Tensor)
    _written_before(graphs.forward, reader, reader.args[1].name)


def _old_value_too_late(graphs: Graphs) -> None:
    (copy,) = _nodes(graphs.forward, aten.clone.default)
    _written_before(graphs.forward, copy, copy.args[0].name)


def _no_update(graphs: Graphs) -> None:
    graphs.forward.erase_node(_nodes(graphs.forward, aten.copy_.default)[0])


def _repeats(graphs: Graphs, wanted: Callable[[str], bool]) -> None:
    """Cut anew, as if ops whose kind is wanted could run again."""
    step = graphs.joint.step
    ops = tuple(replace(op, recomputable=op.recomputable or wanted(op.kind)) for op in step.ops)
    forward, backward = partition(replace(graphs.joint, step=replace(step, ops=ops)), Cut(()))
    graphs.forward, graphs.backward = forward.graph, backward.graph


def _reads_again(graphs: Graphs) -> None:
    _repeats(graphs, lambda kind: "rand" not in kind)


def _draws_again(graphs: Graphs) -> None:
    _repeats(graphs, lambda kind: "rand" in kind)


def _draws_in_another_order(graphs: Graphs) -> None:
    first, second = _nodes(graphs.forward, aten.rand_like.default)
    first.prepend(second)


def _saved_exchanged(graphs: Graphs) -> None:
    (output,) = graphs.forward.find_nodes(op="output")
    results = list(output.args[0])
    alike = [n for n, each in enumerate(results) if n and each.meta["val"].shape == (16, 8)]
    results[alike[0]], results[alike[1]] = results[alike[1]], results[alike[0]]
    output.args = (tuple(results),)


def _gradients_exchanged(graphs: Graphs) -> None:
    (output,) = graphs.backward.find_nodes(op="output")
    results = list(output.args[0])
    first, second = [
        n for n, each in enumerate(results) if each is not None and each.meta["val"].shape == (8, 8)
    ]
    results[first], results[second] = results[second], results[first]
    output.args = (tuple(results),)


def _another_number(graphs: Graphs) -> None:
    (node,) = _nodes(graphs.forward, aten.lerp.Scalar)
    node.args = (*node.args[:2], 0.25)


def _not_saved(graphs: Graphs) -> None:
    (output,) = graphs.forward.find_nodes(op="output")
    output.args = (output.args[0][:-1],)


def _another_part(graphs: Graphs) -> None:
    node = _nodes(graphs.forward, aten.slice.Tensor)[0]
    node.args = (node.args[0], 1, 1, 5)


def _another_op(graphs: Graphs) -> None:
    _nodes(graphs.backward, aten.sin.default)[0].target = aten.cos.default


def _another_source(graphs: Graphs) -> None:
    node = _nodes(graphs.forward, aten.copy_.default)[0]
    node.args = (node.args[0], node.args[0])


def _one_result_less(graphs: Graphs) -> None:
    (output,) = graphs.backward.find_nodes(op="output")
    output.args = (output.args[0][:-1],)


BROKEN = {
    "an update runs before its reader": (_update_first, "is computed from other values: primals"),
    "an old value is copied after its change": (
        _old_value_too_late,
        "is computed from other values: primals",
    ),
    "an update is left out": (_no_update, "does not hold in the end what it should"),
    "what reads a changed tensor runs again": (_reads_again, "is computed from other values"),
    "random numbers are drawn again": (
        _draws_again,
        "random numbers are drawn in another order, or not once: rand",
    ),
    "random numbers are drawn in another order": (
        _draws_in_another_order,
        "random numbers are drawn in another order",
    ),
    "two saved values are exchanged": (_saved_exchanged, "the gradient of primals"),
    "two gradients are exchanged": (_gradients_exchanged, "the gradient of primals"),
    "an op has another number": (_another_number, "does not hold in the end what it should"),
    "a value is not saved": (_not_saved, "which is not saved"),
    "a view shows another part": (_another_part, "result 0 of the forward pass"),
    "a gradient is missing": (_one_result_less, "results and gradients are returned, not"),
    "another op runs": (_another_op, "the gradient of primals"),
    "a tensor is updated by itself": (_another_source, "does not hold in the end what it should"),
}
IN_THE_GATE = (
    "an update runs before its reader",
    "an update is left out",
    "what reads a changed tensor runs again",
    "random numbers are drawn again",
    "a value is not saved",
    "another op runs",
)


@pytest.mark.slow
def test_what_is_planned_passes(graphs: Graphs) -> None:
    assert len(_nodes(graphs.forward, aten.clone.default)) == 1
    assert len(_nodes(graphs.forward, aten.copy_.default)) == 3
    graphs.check()


@pytest.mark.slow
@pytest.mark.parametrize("name", gate(BROKEN, IN_THE_GATE))
def test_a_graph_that_was_broken_is_refused(name: str, graphs: Graphs) -> None:
    broken, says = BROKEN[name]
    broken(graphs)
    with pytest.raises(WrongGraphsError, match=says):
        graphs.check()


@pytest.mark.slow
def test_a_plan_that_is_refused_leaves_the_graph_to_pytorch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(joint: JointGraph, cut: Cut) -> tuple[fx.GraphModule, fx.GraphModule]:
        forward, backward = partition(joint, cut)
        _nodes(backward.graph, aten.mul.Tensor)[0].target = aten.add.Tensor
        backward.recompile()
        return forward, backward

    def gradient(step: Any) -> torch.Tensor:
        torch.manual_seed(0)
        model = Changing()
        step(model)(torch.randn(16, 8)).backward()
        assert model.a.weight.grad is not None
        return model.a.weight.grad

    monkeypatch.setattr(backend, "partition", wrong)
    with training.memory_limit(fraction=1.0):
        found = gradient(lambda model: torch.compile(model, backend="aot_eager"))
    said = capsys.readouterr().err
    assert "is not planned, but cut as PyTorch does by itself: the gradient of primals" in said
    assert torch.allclose(found, gradient(lambda model: model))  # plain torch.compile is wrong here
