"""Kinds of step that nobody thought of: reads and changes of three buffers in a drawn order."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import torch
from benchmarks.kinds.kind import WIDTH, Compile, Kind, Net, batch, descend, kept
from benchmarks.kinds.memories import move
from torch import Tensor

GROUP = "drawn"
READS: tuple[Callable[[Tensor], Tensor], ...] = (
    torch.sin, torch.cos, torch.tanh, torch.sigmoid, torch.atan, lambda u: u * 0.5, lambda u: u[3] - u,
)  # fmt: skip


def _exchange(u: Tensor, v: Tensor) -> None:
    kept = u.clone()
    u.copy_(v)
    v.copy_(kept)


def _rows_change_places(u: Tensor, v: Tensor) -> None:
    u[:4], u[4:8] = u[4:8].clone(), u[:4].clone()


def _rows(x: Tensor) -> Tensor:
    return (x[:WIDTH, 0].abs() * 7).long() % WIDTH


CHANGES: tuple[Callable[[Tensor, Tensor, Tensor], object], ...] = (
    lambda u, v, x: u.mul_(0.9).add_(x.mean(0), alpha=0.1),
    lambda u, v, x: u.add_(x.t() @ x, alpha=0.01),
    lambda u, v, x: u.copy_(v.cos()),
    lambda u, v, x: u.lerp_(v, 0.3),
    lambda u, v, x: u.clamp_(-0.5, 0.5),
    lambda u, v, x: u.zero_(),
    lambda u, v, x: u.t().mul_(0.5),
    lambda u, v, x: u.diagonal().add_(x[0]),
    lambda u, v, x: u.view(-1)[5:50].neg_(),
    lambda u, v, x: u[:, ::2].sin_(),
    lambda u, v, x: u[5].copy_(x.mean(0)),
    lambda u, v, x: u.index_put_((_rows(x),), 0.1 * x[:WIDTH], accumulate=True),
    lambda u, v, x: u.index_copy_(0, torch.arange(WIDTH).roll(3), 0.1 * x[:WIDTH]),
    lambda u, v, x: u.scatter_add_(0, (x[:WIDTH].abs() * 7).long() % WIDTH, 0.1 * x[:WIDTH]),
    lambda u, v, x: _exchange(u, v),
    lambda u, v, x: _rows_change_places(u, v),
)
RESULTS: tuple[Callable[[list[Tensor]], Tensor], ...] = (
    lambda buffers: buffers[0] * 1.0,
    lambda buffers: buffers[0].clone(),
    lambda buffers: buffers[1][2:5].clone(),
    lambda buffers: buffers[2].t().cos(),
)


class _Drawn(Net):
    """A step of a seed: its loss, and a result that shows a buffer."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        rng = random.Random(seed)
        self.order = [self._draw(rng) for _ in range(rng.randint(3, 8))]
        self.result = rng.choice(RESULTS)

    def make(self) -> None:
        for number in range(3):
            self.keep(f"buffer{number}", torch.linspace(-1, 1, WIDTH * WIDTH).view(WIDTH, WIDTH).roll(number))

    @staticmethod
    def _draw(rng: random.Random) -> tuple[str, int, int]:
        what = rng.choice(("read", "add", "change", "change", "custom"))
        return what, rng.randrange(3), rng.randrange(len(CHANGES if what == "change" else READS))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        buffers, h = [self.buffer0, self.buffer1, self.buffer2], self.a(x)
        for what, at, which in self.order:
            u, v, given = buffers[at], buffers[(at + 1) % 3], x.detach()
            if what == "read":
                h = (h + 0.1 * h @ READS[which](u)).sin()
            elif what == "add":
                h = torch.add(h, x @ u, alpha=0.01)
            elif what == "custom":
                h = h + move(u, given[:WIDTH]).mean(0)
            else:
                CHANGES[which](u, v, given)
        return self.end(h), self.result(buffers)


def _steps(seed: int, wrap: Compile) -> list[Tensor]:
    """Two steps of a seed: each with its backward pass, both before it, or without."""
    net, results = _Drawn(seed).double(), list[Tensor]()
    step, mode = wrap(net), random.Random(-seed).choice(("alone", "together", "no_grad"))
    with torch.set_grad_enabled(mode != "no_grad"):
        losses = []
        for _ in range(2):
            loss, shown = step(batch(shift=0.0))
            losses.append(loss)
            results += [loss.detach(), shown.detach().clone()]
            if mode == "alone":
                loss.backward()
        if mode == "together":
            sum(losses).backward()
    return results + descend(net.parameters()) + kept(net)


def drawn(seed: int) -> Kind:
    """The kind of step of a seed."""
    return Kind(f"drawn {seed}", GROUP, partial(_steps, seed))
