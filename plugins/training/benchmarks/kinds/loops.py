"""Ways to run a step: several passes, several functions, optimizers, changing modes and sizes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from benchmarks.kinds.kind import BATCH, WIDTH, Compile, Net, batch, descend, kept, kind
from torch import Tensor, nn

GROUP = "loops"


class _Plain(Net):
    def forward(self, x: Tensor) -> Tensor:
        return self.end(self.a(x))


class _Normed(Net):
    def make(self) -> None:
        self.norm = nn.BatchNorm1d(WIDTH)
        self.keep("seen", torch.zeros(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.a(x - self.seen.tanh()))
        self.seen.lerp_(x.detach().mean(0), 0.1)
        return self.end(h)


@kind("gradients accumulated over batches", GROUP)
def _(wrap: Compile) -> list[Tensor]:
    net = _Normed().double()
    step, results = wrap(net), list[Tensor]()
    for _ in range(2):
        for _ in range(3):
            loss = step(batch()) / 3
            loss.backward()
            results.append(loss.detach())
        results += descend(net.parameters())
    return results + kept(net)


@kind("several forward passes before one backward pass", GROUP)
def _(wrap: Compile) -> list[Tensor]:
    net = _Plain().double()
    step = wrap(net)
    loss = sum(step(batch()) for _ in range(3))
    loss.backward()
    return [loss.detach(), *descend(net.parameters()), *kept(net)]


@kind("several forward passes with a running mean", GROUP)
def _(wrap: Compile) -> list[Tensor]:
    net = _Normed().double()
    step = wrap(net)
    loss = sum(step(batch()) for _ in range(3))
    loss.backward()
    return [loss.detach(), *descend(net.parameters()), *kept(net)]


@kind("backward passes in another order", GROUP)
def _(wrap: Compile) -> list[Tensor]:
    net = _Normed().double()
    step = wrap(net)
    losses = [step(batch()) for _ in range(3)]
    for loss in (losses[1], losses[0], losses[2]):
        loss.backward()
    return [*(loss.detach() for loss in losses), *descend(net.parameters()), *kept(net)]


@kind("a backward pass twice, with retain_graph", GROUP)
def _(wrap: Compile) -> list[Tensor]:
    net = _Plain().double()
    loss = wrap(net)(batch())
    loss.backward(retain_graph=True)
    loss.backward()
    return [loss.detach(), *descend(net.parameters()), *kept(net)]


@kind("gradients by autograd.grad", GROUP)
def _(wrap: Compile) -> list[Tensor]:
    net = _Plain().double()
    x = batch().requires_grad_()
    loss = wrap(net)(x)
    return [loss.detach(), *torch.autograd.grad(loss, [x, net.a.weight])]


@kind("an input that requires a gradient", GROUP)
def _(wrap: Compile) -> list[Tensor]:
    net = _Normed().double()
    x = batch().requires_grad_()
    loss = wrap(net)(x * 1)
    loss.backward()
    assert x.grad is not None
    return [loss.detach(), x.grad, *descend(net.parameters()), *kept(net)]


@kind("two losses of one forward pass", GROUP)
def _(wrap: Compile) -> list[Tensor]:
    class Two(Net):
        def forward(self, x: Tensor) -> Any:
            h = self.a(x).tanh()
            return self.end(h), self.b(h).square().mean()

    net = Two().double()
    first, second = wrap(net)(batch())
    first.backward(retain_graph=True)
    middle = [p.grad.clone() for p in net.parameters()]
    second.backward()
    return [first.detach(), second.detach(), *middle, *descend(net.parameters()), *kept(net)]


@kind("a loss outside of what is compiled", GROUP)
def _(wrap: Compile) -> list[Tensor]:
    class Features(Net):
        def forward(self, x: Tensor) -> Tensor:
            return self.b(self.a(x).tanh()).sin()

    net = Features().double()
    features = wrap(net)(batch())
    loss = (features.exp() - 1).square().mean()
    loss.backward()
    return [loss.detach(), *descend(net.parameters()), *kept(net)]


@kind("a GAN", GROUP)
def _(wrap: Compile) -> list[Tensor]:
    maker, critic = _Plain().double(), _Normed().double()
    results: list[Tensor] = []

    def made(z: Tensor) -> Tensor:
        return maker.b(maker.a(z).tanh())

    judge = wrap(lambda real, z: critic(real) - critic(made(z).detach()))
    fool = wrap(lambda z: critic(made(z)))
    for _ in range(2):
        loss = judge(batch(), batch())
        loss.backward()
        results += [loss.detach(), *descend(critic.parameters())]
        loss = fool(batch())
        loss.backward()
        results += [loss.detach(), *descend(maker.parameters())]
        critic.zero_grad()
    return results + kept(maker) + kept(critic)


@kind("SGD with momentum outside", GROUP)
def _(wrap: Compile) -> list[Tensor]:
    net = _Normed().double()
    step, optimizer = wrap(net), torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = step(batch())
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [*losses, *kept(net)]


@kind("AdamW outside", GROUP, 1e-6)
def _(wrap: Compile) -> list[Tensor]:
    net = _Normed().double()
    step, optimizer = wrap(net), torch.optim.AdamW(net.parameters(), 1e-2)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = step(batch())
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [*losses, *kept(net)]


@kind("an optimizer that is compiled by itself", GROUP, 1e-6)
def _(wrap: Compile) -> list[Tensor]:
    net = _Plain().double()
    step, optimizer = wrap(net), torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    update = wrap(lambda: optimizer.step())
    losses = []
    for _ in range(3):
        loss = step(batch())
        loss.backward()
        update()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return [*losses, *kept(net)]


@kind("the update within the compiled function", GROUP)
def _(wrap: Compile) -> list[Tensor]:
    net = _Plain().double()

    def whole(x: Tensor) -> Tensor:
        loss = net(x)
        loss.backward()
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.sub_(0.1 * parameter.grad)
                parameter.grad = None
        return loss.detach()

    step = wrap(whole)
    return [*(step(batch()) for _ in range(2)), *kept(net)]


@kind("training, evaluation and no_grad in turn", GROUP)
def _(wrap: Compile) -> list[Tensor]:
    net = _Normed().double()
    step, results = wrap(net), list[Tensor]()
    for turn in range(4):
        net.train(turn % 2 == 0)
        if turn == 3:
            with torch.no_grad():
                results.append(step(batch()))
            continue
        loss = step(batch())
        loss.backward()
        results += [loss.detach(), *descend(net.parameters())]
    return results + kept(net)


@kind("inference mode after training", GROUP)
def _(wrap: Compile) -> list[Tensor]:
    net = _Plain().double()
    step = wrap(net)
    loss = step(batch())
    loss.backward()
    with torch.inference_mode():
        tested = step(batch())
    return [loss.detach(), tested, *descend(net.parameters())]


@kind("changing batch sizes", GROUP)
def _(wrap: Compile) -> list[Tensor]:
    net = _Normed().double()
    step, results = wrap(net), list[Tensor]()
    for size in (BATCH, BATCH // 2, BATCH, BATCH // 4):
        loss = step(batch(size, WIDTH))
        loss.backward()
        results += [loss.detach(), *descend(net.parameters())]
    return results + kept(net)


@kind("sizes left open by dynamic=True", GROUP)
def _(wrap: Compile) -> list[Tensor]:
    net = _Normed().double()
    step, results = wrap(net, dynamic=True), list[Tensor]()
    for size in (BATCH, BATCH // 2):
        loss = step(batch(size, WIDTH))
        loss.backward()
        results += [loss.detach(), *descend(net.parameters())]
    return results + kept(net)


@kind("open sizes and a buffer changed after it was read", GROUP)
def _(wrap: Compile) -> list[Tensor]:
    class Open(Net):
        def make(self) -> None:
            self.keep("gate", torch.ones(WIDTH))

        def forward(self, x: Tensor) -> Tensor:
            y = self.a(x) * self.gate.exp()
            self.gate.add_(1)
            return self.end(y.sin() * y)

    net = Open().double()
    step, results = wrap(net, dynamic=True), list[Tensor]()
    for size in (BATCH, BATCH // 2):
        loss = step(batch(size, WIDTH))
        loss.backward()
        results += [loss.detach(), *descend(net.parameters())]
    return results + kept(net)


@kind("a step in another thread", GROUP)
def _(wrap: Compile) -> list[Tensor]:
    net = _Plain().double()
    step = wrap(net)

    def run() -> Tensor:
        loss: Tensor = step(batch())
        loss.backward()
        return loss.detach()

    with ThreadPoolExecutor(1) as thread:
        return [thread.submit(run).result(), *descend(net.parameters())]


@kind("blocks that are compiled one by one", GROUP)
def _(wrap: Compile) -> list[Tensor]:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.norm = nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH)

        def forward(self, x: Tensor) -> Tensor:
            return x + self.norm(self.a(x).tanh()).sin()

    net = nn.Sequential(*(Block() for _ in range(3))).double()
    blocks, results = [wrap(block) for block in net], list[Tensor]()
    for _ in range(2):
        h = batch()
        for block in blocks:
            h = block(h)
        loss = h.square().mean()
        loss.backward()
        results += [loss.detach(), *descend(net.parameters())]
    return results + kept(net)


@kind("one compiled block that runs twice in a step", GROUP)
def _(wrap: Compile) -> list[Tensor]:
    net, results = _Twice().double(), list[Tensor]()
    block = wrap(net)
    for _ in range(2):
        loss = block(block(batch()).sin()).square().mean()
        loss.backward()
        results += [loss.detach(), *descend(net.parameters())]
    return results + kept(net)


class _Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("mean", torch.zeros(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        y = self.a((x - self.mean).exp().clamp(max=4)).tanh()
        self.mean.lerp_(x.detach().mean(0), 0.5)
        return y.sin()


@kind("autocast outside", GROUP, 2e-2)
def _(wrap: Compile) -> list[Tensor]:
    net = _Plain().float()
    step = wrap(net)
    with torch.autocast("cpu", torch.bfloat16):
        loss = step(batch().float())
    loss.backward()
    return [loss.detach()]


@kind("a student and its teacher, moved outside", GROUP)
def _(wrap: Compile) -> list[Tensor]:
    student, teacher = _Plain().double(), _Plain().double()
    step, results = wrap(lambda x: student(x) - teacher(x).detach().sin()), list[Tensor]()
    for _ in range(2):
        loss = step(batch())
        loss.backward()
        results += [loss.detach(), *descend(student.parameters())]
        with torch.no_grad():
            for ours, theirs in zip(teacher.parameters(), student.parameters(), strict=True):
                ours.lerp_(theirs, 0.1)
    return results + kept(teacher)


@kind("two halves compiled by themselves, joined by a loss", GROUP)
def _(wrap: Compile) -> list[Tensor]:
    first, second = nn.Linear(WIDTH, WIDTH).double(), _Normed().double()
    encode, decode = wrap(lambda x: first(x).exp().sin()), wrap(second)
    results = []
    for _ in range(2):
        loss = decode(encode(batch()))
        loss.backward()
        results += [loss.detach(), *descend([*first.parameters(), *second.parameters()])]
    return results + kept(second)


@kind("gradients clipped and scaled outside", GROUP)
def _(wrap: Compile) -> list[Tensor]:
    net = _Normed().double()
    step, results = wrap(net), list[Tensor]()
    for _ in range(2):
        loss = step(batch())
        (loss * 1024).backward()
        for parameter in net.parameters():
            if parameter.grad is not None:
                parameter.grad.div_(1024)
        torch.nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        results += [loss.detach(), *descend(net.parameters())]
    return results + kept(net)
