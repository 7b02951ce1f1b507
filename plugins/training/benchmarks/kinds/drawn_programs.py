"""Programs that nobody thought of: parts of a step in a drawn order, some within others, for a drawn way to run it.

Parts are layers, reads and changes of buffers, random numbers, functions with a backward pass of their own and graph
breaks; they stand in checkpoints, autocast, branches, parts without gradients, and parts that run twice.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from benchmarks.kinds.drawn import CHANGES, READS
from benchmarks.kinds.drawn_runs import RUNS
from benchmarks.kinds.kind import WIDTH, Compile, Kind, Net
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

GROUP = "drawn programs"
Part = Callable[["Program", Tensor, Tensor], Tensor]
"""A part of a step: the next state of a net, its state and what the step is given, all of them [rows, WIDTH]."""


class _Scaled(torch.autograd.Function):
    """Saves what it is given and what it returns, and changes a buffer in its backward pass."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, seen: Tensor) -> Tensor:
        y = h.sigmoid()
        ctx.save_for_backward(h, y)
        ctx.seen = seen
        return y * h

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        h, y = ctx.saved_tensors
        ctx.seen.mul_(0.5).add_(gradient.abs().mean())
        return gradient * (y + h * y * (1 - y)), None


class _Two(torch.autograd.Function):
    """Returns two results, of which one may have no gradient."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, scale: float) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.scale = scale
        ctx.save_for_backward(h)
        return h * scale, h.cos()

    @staticmethod
    def backward(ctx: Any, first: Tensor | None, second: Tensor | None) -> tuple[Tensor | None, None]:
        (h,) = ctx.saved_tensors
        gradient = None if first is None else first * ctx.scale
        if second is not None:
            gradient = -second * h.sin() + (0 if gradient is None else gradient)
        return gradient, None


def _overwritten(net: Program, h: Tensor, x: Tensor) -> Tensor:
    y = h * 1.0
    y[:, ::2] = h[:, 1::2].sin()
    y[1:].mul_(0.7)
    return y.tanh()


def _moved_by_state(net: Program, h: Tensor, x: Tensor) -> Tensor:
    y = h * net.mean.cos()
    net.mean.lerp_(h.detach().mean(0), 0.2)
    return y


def _counted(net: Program, h: Tensor, x: Tensor) -> Tensor:
    net.count.add_(1)
    return h * (1 / net.count)


def _gradient_within(net: Program, h: Tensor, x: Tensor) -> Tensor:
    with torch.enable_grad():
        given = h.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(net.end(given), given)
    return h + gradient


def _of_chosen_rows(net: Program, h: Tensor, x: Tensor) -> Tensor:
    chosen = h[h.detach().mean(1) > h.detach().mean()]
    return h + chosen.sin().mean(0)


@torch.compiler.disable
def _in_eager_mode(net: Program, h: Tensor, x: Tensor) -> Tensor:
    net.mean.mul_(0.8).add_(h.detach().mean(0))
    return h.sin() + net.mean.cos()


def _broken(net: Program, h: Tensor, x: Tensor) -> Tensor:
    y = h.sin() * net.mean.sin()
    torch._dynamo.graph_break()
    net.mean.add_(y.detach().mean(0))
    return h + y.mul_(0.5)


def _by_a_number(net: Program, h: Tensor, x: Tensor) -> Tensor:
    return h * (1 + 0.1 * (net.count.item() > 2))


def _input_changed(net: Program, h: Tensor, x: Tensor) -> Tensor:
    y = h + x.sin()
    if not x.requires_grad:
        x.mul_(0.9)
    return y + x.cos()


def _cross(net: Program, h: Tensor, x: Tensor) -> Tensor:
    state = net.state0 + 0.01 * h.t() @ h
    net.state0.copy_(state.detach().tanh())
    return (h @ state.tanh()).sin()


def _in_bfloat16(net: Program, h: Tensor, x: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        y = net.low(net.low(h.float()).tanh())
        net.seen_low.lerp_(y.detach().float().mean(0), 0.5)
    return (y * net.seen_low.cos()).double()


LAYERS: dict[str, Part] = {
    "a": lambda net, h, x: net.a(h).tanh(),
    "b": lambda net, h, x: h + net.b(h).sin(),
    "gelu": lambda net, h, x: F.gelu(net.b(h)),
    "attention": lambda net, h, x: F.scaled_dot_product_attention(h[None], net.a(h)[None], h.sin()[None])[0],
    "dropout": lambda net, h, x: F.dropout(net.a(h), 0.3, net.training),
    "noise": lambda net, h, x: h + 0.1 * torch.randn_like(h),
    "two": lambda net, h, x: _Two.apply(h, 0.9)[0] + _Two.apply(net.a(h), 0.5)[1],
    "overwritten": _overwritten,
    "layer norm": lambda net, h, x: F.layer_norm(h, (WIDTH,), 1 + net.a.bias),
}
"""Parts that change no buffer."""
CHANGING: dict[str, Part] = {
    "norm": lambda net, h, x: net.norm(h),
    "mean": _moved_by_state,
    "count": _counted,
    "scaled": lambda net, h, x: _Scaled.apply(h, net.seen),
    "cross": _cross,
    "input": _input_changed,
    "bfloat16": _in_bfloat16,
    "view": lambda net, h, x: h + net.state1.view(-1)[:WIDTH].mul_(0.5).sin(),
}
BREAKING: dict[str, Part] = {
    "break": _broken,
    "number": _by_a_number,
    "eager": _in_eager_mode,
    "rows": _of_chosen_rows,
    "gradient": _gradient_within,
}
"""Parts in which PyTorch may end a graph."""


class Program(Net):
    """A step of a seed: its loss, and results of the forward pass.

    Attributes:
        parts: names, for people.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        rng = random.Random(f"program {seed}")
        self.parts: list[str] = []
        self.breaks = rng.random() < 0.4
        self.low_precision = rng.random() < 0.25
        self.body = [self._part(rng, 0) for _ in range(rng.randint(3, 6))]
        self.result = rng.choice(tuple(RESULTS))
        self.parts.append(f"returns {self.result}")

    def make(self) -> None:
        self.norm = nn.BatchNorm1d(WIDTH)
        self.keep("state0", torch.linspace(-1, 1, WIDTH * WIDTH).view(WIDTH, WIDTH))
        self.keep("state1", torch.linspace(1, -1, WIDTH * WIDTH).view(WIDTH, WIDTH))
        self.keep("still", torch.linspace(-1, 2, WIDTH * WIDTH).view(WIDTH, WIDTH))
        self.keep("mean", torch.linspace(0, 1, WIDTH))
        self.keep("count", torch.ones(()))
        self.keep("seen", torch.zeros(WIDTH))
        self.turn = 0

    def lower(self) -> Program:
        """The same with a layer in float32."""
        self.low = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("seen_low", torch.zeros(WIDTH))
        return self

    def is_rounded(self) -> bool:
        """True if parts run in bfloat16, between whose ops compiled code may not round."""
        return "bfloat16" in self.parts or (self.low_precision and "autocast(" in self.parts)

    def _part(self, rng: random.Random, depth: int, pure: bool = False) -> Part:
        """A part, with others in it unless it is `depth` 2; a pure one changes no buffer."""
        what = rng.choice(("layer", "layer", "change", "read", "custom", "break", "within", "within"))
        if what == "within" and depth < 2:
            return self._within(rng, depth, pure)
        if what == "read" or (what == "custom" and pure):
            which = rng.randrange(len(READS))
            self.parts.append(f"read {which}")
            # A checkpoint of eager mode reads a buffer again as it is in the backward pass: not what is tested here.
            name = "still" if pure else "state1"
            return lambda net, h, x: (h + 0.1 * h @ READS[which](getattr(net, name))).sin()
        if what == "custom" and not pure:
            which = rng.randrange(len(CHANGES))
            self.parts.append(f"change {which}")
            return partial(_changed, which)
        choices = dict(LAYERS)
        if what == "change" and not pure:
            choices = {
                name: part for name, part in CHANGING.items() if name != "bfloat16" or self.low_precision
            }
        if what == "break" and self.breaks and not pure:
            choices = BREAKING
        name = rng.choice(tuple(choices))
        self.parts.append(name)
        return choices[name]

    def _within(self, rng: random.Random, depth: int, pure: bool) -> Part:
        name = rng.choice(tuple(WITHIN))
        self.parts.append(f"{name}(")
        pure = pure or name in ("checkpoint", "cond")
        inner = [self._part(rng, depth + 1, pure) for _ in range(rng.randint(1, 2))]
        self.parts.append(")")
        return partial(WITHIN[name], inner)

    def forward(self, x: Tensor) -> Any:
        h = self.a(x.sin())
        for part in self.body:
            h = part(self, h, x)
        return self.end(h), RESULTS[self.result](self, h, x)


def _changed(which: int, net: Program, h: Tensor, x: Tensor) -> Tensor:
    given = F.pad(x.detach().cos(), (0, 0, 0, max(0, WIDTH - x.shape[0])))
    CHANGES[which](net.state0, net.state1, given)
    return h + 0.1 * net.state0.sin()[3]


def _all(inner: list[Part], net: Program, h: Tensor, x: Tensor) -> Tensor:
    for part in inner:
        h = part(net, h, x)
    return h


def _without_gradients(inner: list[Part], net: Program, h: Tensor, x: Tensor) -> Tensor:
    with torch.no_grad():
        y = _all(inner, net, h, x)
    return h + 0.5 * y


def _twice(inner: list[Part], net: Program, h: Tensor, x: Tensor) -> Tensor:
    return _all(inner, net, _all(inner, net, h, x), x)


def _every_second_step(inner: list[Part], net: Program, h: Tensor, x: Tensor) -> Tensor:
    return _all(inner, net, h, x) if net.turn == 1 else h.sin()


def _checkpointed(inner: list[Part], net: Program, h: Tensor, x: Tensor) -> Tensor:
    return checkpoint(lambda h: _all(inner, net, h, x), h, use_reentrant=False)


def _conditional(inner: list[Part], net: Program, h: Tensor, x: Tensor) -> Tensor:
    return torch.cond(net.count > 1.5, lambda h: net.a(h).sin(), lambda h: h.cos(), (h,))


def _detached(inner: list[Part], net: Program, h: Tensor, x: Tensor) -> Tensor:
    return h + (_all(inner, net, h, x) - h).detach()


def _in_autocast(inner: list[Part], net: Program, h: Tensor, x: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        h = _all(inner, net, h, x)
        return h + F.linear(h.float(), net.a.weight.float()).double() if net.low_precision else h


WITHIN: dict[str, Callable[..., Tensor]] = {
    "no_grad": _without_gradients,
    "twice": _twice,
    "branch": _every_second_step,
    "checkpoint": _checkpointed,
    "cond": _conditional,
    "detach": _detached,
    "autocast": _in_autocast,
}
RESULTS: dict[str, Callable[[Program, Tensor, Tensor], Any]] = {
    "nothing": lambda net, h, x: None,
    "rows of a buffer": lambda net, h, x: net.state0[2:5],
    "a buffer": lambda net, h, x: net.mean,
    "a transposed buffer, and a copy": lambda net, h, x: (net.state1.t(), net.state1.clone()),
    "the state": lambda net, h, x: h * 1.0,
    "the state and a view of it": lambda net, h, x: {"state": (y := h * 1.0), "rows": y[:4].t()},
    "the state without gradients": lambda net, h, x: h.detach() * 1.0,
    "the input": lambda net, h, x: x,
    "a view of the input": lambda net, h, x: x[::2],
    "a weight, and a number": lambda net, h, x: (net.b.weight * 1.0, 0.5),
}


def program(seed: int) -> Kind:
    """The kind of step of a seed."""

    def run(wrap: Compile) -> list[Tensor]:
        net = Program(seed).double().lower()
        return RUNS[random.Random(f"run {seed}").choice(tuple(RUNS))](net, wrap)

    rounded = Program(seed).is_rounded()
    most = 3e-2 if rounded else 1e-7
    return Kind(f"program {seed}", GROUP, run, compiled_tolerance=most, as_plain=rounded)
