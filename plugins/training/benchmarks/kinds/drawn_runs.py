"""Ways to run a drawn step: passes in several orders, gradients accumulated, optimizers, and changes between passes.

Each is given a net whose step returns a loss and whatever else, and returns all that a user could look at. It may set
`turn` of the net to the number of the step, from 0 on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from benchmarks.kinds.kind import BATCH, WIDTH, Compile, batch, descend, kept
from torch import Tensor
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop


def _copies(tree: Any) -> list[Tensor]:
    return [leaf.detach().clone() for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def _gradients(net: Any) -> list[Tensor]:
    """Of all parameters. None counts as zeros, which compiled code gives if other results depend on a parameter."""
    return [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in net.parameters()]


def _descended(net: Any) -> list[Tensor]:
    """The gradients, after a step of descent."""
    gradients = _gradients(net)
    descend(net.parameters())
    return gradients


def _plain(net: Any, wrap: Compile) -> list[Tensor]:
    step, results = wrap(net), list[Tensor]()
    for net.turn in range(3):
        x = batch(shift=0.0)
        found = step(x)
        results += _copies(found)
        found[0].backward()
        results += [*_descended(net), x, *_copies(found)]
    return results + kept(net)


def _with_input_gradients(net: Any, wrap: Compile) -> list[Tensor]:
    step, results = wrap(net), list[Tensor]()
    for net.turn in range(2):
        x = batch(shift=0.0).requires_grad_()
        found = step(x * 1.0)
        found[0].backward()
        assert x.grad is not None
        results += [*_copies(found), x.grad, *_descended(net)]
    return results + kept(net)


def _accumulated(net: Any, wrap: Compile) -> list[Tensor]:
    step, results = wrap(net), list[Tensor]()
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    for net.turn in range(2):
        optimizer.zero_grad()
        for part in batch(shift=0.0).chunk(2):
            found = step(part)
            (found[0] / 2).backward()
            results += _copies(found)
        optimizer.step()
    return results + kept(net)


def _together(net: Any, wrap: Compile) -> list[Tensor]:
    step = wrap(net)
    found = [step(batch(shift=0.0)) for _ in range(3)]
    sum(each[0] for each in found).backward()
    return _copies(found) + _descended(net) + kept(net)


def _reversed(net: Any, wrap: Compile) -> list[Tensor]:
    step, results = wrap(net), list[Tensor]()
    found = [step(batch(shift=0.0)) for _ in range(2)]
    for each in reversed(found):
        each[0].backward()
        results += _gradients(net)
    return results + _copies(found) + _descended(net) + kept(net)


def _retained(net: Any, wrap: Compile) -> list[Tensor]:
    step, results = wrap(net), list[Tensor]()
    for net.turn in range(2):
        found = step(batch(shift=0.0))
        found[0].backward(retain_graph=True)
        results += _gradients(net)
        found[0].backward()
        results += _copies(found) + _descended(net)
    return results + kept(net)


def _by_results(net: Any, wrap: Compile) -> list[Tensor]:
    """What else is returned has a part in the loss, and a backward pass of its own first."""
    step, results = wrap(net), list[Tensor]()
    for net.turn in range(2):
        loss, *others = tree_leaves(step(batch(shift=0.0)))
        others = [each for each in others if isinstance(each, Tensor) and each.requires_grad]
        if others:
            sum(each.sin().sum() for each in others).backward(retain_graph=True)
            results += _gradients(net)
        loss.backward()
        results += _copies([loss, *others]) + _descended(net)
    return results + kept(net)


def _by_grad(net: Any, wrap: Compile) -> list[Tensor]:
    step, results, wanted = wrap(net), list[Tensor](), list(net.parameters())
    for net.turn in range(2):
        found = step(batch(shift=0.0))
        gradients = torch.autograd.grad(found[0], wanted, allow_unused=True, materialize_grads=True)
        results += _copies([*gradients, found])
    return results + kept(net)


def _optimizer_within(net: Any, wrap: Compile) -> list[Tensor]:
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)

    def whole(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = net(x)[0]
        loss.backward()
        optimizer.step()
        return loss.detach() + net.a.bias.detach().sum()

    step = wrap(whole)
    return [*(step(batch(shift=0.0)) for _ in range(3)), *kept(net)]


def _changed_between(net: Any, wrap: Compile) -> list[Tensor]:
    """Buffers, inputs and results change between the passes."""
    step, results = wrap(net), list[Tensor]()
    for net.turn in range(2):
        x = batch(shift=0.0)
        found = step(x)
        results += _copies(found)
        with torch.no_grad():
            for name, buffer in net.named_buffers():
                if "norm" not in name:  # eager mode holds its statistics
                    buffer.add_(1)
            for leaf in tree_leaves(found[1]):
                if isinstance(leaf, Tensor) and not leaf.requires_grad:
                    leaf.mul_(0.5)
            x.normal_()
        found[0].backward()
        results += _descended(net)
    return results + kept(net)


def _modes_in_turn(net: Any, wrap: Compile) -> list[Tensor]:
    step, results = wrap(net), list[Tensor]()
    for net.turn in range(2):
        found = step(batch(shift=0.0))
        net.eval()
        with torch.no_grad():
            results += _copies(step(batch(shift=0.0)))
        net.train()
        found[0].backward()
        results += _copies(found) + _descended(net)
    return results + kept(net)


def _frozen_in_turn(net: Any, wrap: Compile) -> list[Tensor]:
    step, results = wrap(net), list[Tensor]()
    for net.turn in range(2):
        net.b.requires_grad_(net.turn == 0)
        found = step(batch(shift=0.0))
        found[0].backward()
        results += _copies(found) + _descended(net)
        net.load_state_dict({name: value * 0.9 for name, value in net.state_dict().items()})
    return results + kept(net)


def _in_a_checkpoint(net: Any, wrap: Compile) -> list[Tensor]:
    """The compiled step runs within a checkpoint of eager mode, and again in its backward pass."""
    step, results = wrap(net), list[Tensor]()
    for net.turn in range(2):
        with set_checkpoint_early_stop(False):  # what is compiled runs to its end, too
            found = checkpoint(step, batch(shift=0.0).requires_grad_(), use_reentrant=False)
            found[0].backward()
        results += _copies(found) + _descended(net)
    return results + kept(net)


def _values_packed(net: Any, wrap: Compile) -> list[Tensor]:
    """What is saved for the backward pass goes through functions of the user."""
    step, results = wrap(net), list[Tensor]()
    for net.turn in range(2):
        with torch.autograd.graph.saved_tensors_hooks(torch.clone, torch.clone):
            found = step(batch(shift=0.0))
        found[0].backward()
        results += _copies(found) + _descended(net)
    return results + kept(net)


def _of_two_sizes(net: Any, wrap: Compile) -> list[Tensor]:
    step, results = wrap(net), list[Tensor]()
    for rows in (BATCH, BATCH // 4, BATCH):
        found = step(batch(rows, WIDTH, shift=0.0))
        found[0].backward()
        results += _copies(found) + _descended(net)
    return results + kept(net)


RUNS: dict[str, Callable[[Any, Compile], list[Tensor]]] = {
    "plain": _plain,
    "input gradients": _with_input_gradients,
    "accumulated": _accumulated,
    "together": _together,
    "reversed": _reversed,
    "retained": _retained,
    "by results": _by_results,
    "by grad": _by_grad,
    "optimizer within": _optimizer_within,
    "changed between": _changed_between,
    "modes in turn": _modes_in_turn,
    "frozen in turn": _frozen_in_turn,
    "in a checkpoint": _in_a_checkpoint,
    "values packed": _values_packed,
    "of two sizes": _of_two_sizes,
}
