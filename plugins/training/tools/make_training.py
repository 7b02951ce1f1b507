"""Make training steps without a framework: a decoder, a U-Net, or small random steps for tests.

    python plugins/training/tools/make_training.py decoder --layers 4 decoder.json.xz
    python plugins/training/tools/make_training.py unet --levels 3 unet.json.xz
    python plugins/training/tools/make_training.py random --seed 0 random.json

Bytes follow from shapes, in 4-byte numbers. Seconds are a roofline: the greater of operations / rate and bytes moved /
bandwidth, and a launch. Rate, bandwidth and launch are round numbers of a small accelerator (assumption).
"""

from __future__ import annotations

import argparse
import lzma
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from egrl_training.steps.json_file import to_json
from egrl_training.steps.step import OWNER, Op, TrainingStep, Value

FLOPS_PER_S, BYTES_PER_S, LAUNCH_S = 10e12, 500e9, 4e-6
NUMBER_BYTES = 4


@dataclass
class _Taped:
    """A forward op as its backward needs it: what it read, made, and which values its gradients are computed from."""

    name: str
    kind: str
    inputs: list[int]
    output: int
    read: list[int]
    flops: float


@dataclass
class Maker:
    """A step under construction: forward ops are recorded, and `finish` adds their backward ops in reverse."""

    name: str
    values: list[Value] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    tape: list[_Taped] = field(default_factory=list)
    constant: set[int] = field(default_factory=set)

    def value(self, name: str, size_bytes: int = 0, view_of: int = OWNER, role: str = "") -> int:
        """The position of a new value."""
        self.values.append(Value(name, size_bytes, view_of, role))
        return len(self.values) - 1

    def parameter(self, name: str, numbers: int) -> int:
        """A parameter of so many numbers."""
        return self.value(name, numbers * NUMBER_BYTES, role="parameter")

    def data(self, name: str, numbers: int) -> int:
        """An input of so many numbers, which has no gradient."""
        found = self.value(name, numbers * NUMBER_BYTES, role="input")
        self.constant.add(found)
        return found

    def _seconds(self, inputs: list[int], outputs: list[int], flops: float) -> float:
        moved = sum(self.values[self._owner(number)].size_bytes for number in [*inputs, *outputs])
        return round(max(flops / FLOPS_PER_S, moved / BYTES_PER_S) + LAUNCH_S, 9)

    def _owner(self, number: int) -> int:
        return number if self.values[number].view_of == OWNER else self.values[number].view_of

    def op(
        self,
        kind: str,
        inputs: list[int],
        numbers: list[int],
        flops: float = 0.0,
        *,
        phase: str = "forward",
        recomputable: bool = True,
        scratch: int = 0,
    ) -> list[int]:
        """Add an op that makes storages of so many numbers; their positions."""
        name = f"{kind}_{len(self.ops)}"
        outputs = [
            self.value(f"{name}.{k}" if k else name, count * NUMBER_BYTES) for k, count in enumerate(numbers)
        ]
        seconds = self._seconds(inputs, outputs, flops)
        once = tuple(dict.fromkeys(inputs))
        self.ops.append(
            Op(
                name,
                f"aten.{kind}",
                phase,
                once,
                tuple(outputs),
                seconds,
                scratch * NUMBER_BYTES,
                recomputable,
            )
        )
        return outputs

    def view(self, kind: str, of: int, phase: str = "forward") -> int:
        """Add a view of a value."""
        name = f"{kind}_{len(self.ops)}"
        found = self.value(name, view_of=self._owner(of))
        self.ops.append(Op(name, f"aten.{kind}", phase, (of,), (found,), 0.0))
        if of in self.constant:
            self.constant.add(found)
        return found

    def layer(
        self,
        kind: str,
        inputs: list[int],
        numbers: list[int],
        flops: float = 0.0,
        *,
        reads: str = "",
        scratch: int = 0,
        recomputable: bool = True,
    ) -> int:
        """A forward op with a backward.

        `reads` names what its backward reads: "i" its inputs, "o" all its outputs, "x" its further outputs.
        """
        outputs = self.op(kind, inputs, numbers, flops, recomputable=recomputable, scratch=scratch)
        read = inputs * ("i" in reads) + outputs * ("o" in reads) + outputs[1:] * ("x" in reads)
        self.tape.append(_Taped(self.ops[-1].name, kind, inputs, outputs[0], read, flops))
        return outputs[0]

    def finish(self, loss: int, source: str) -> TrainingStep:
        """The step: the tangent of `loss`, then the backward ops, gradients of parameters returned."""
        tangent = self.value("tangent", self.values[self._owner(loss)].size_bytes, role="tangent")
        gradient = {self._owner(loss): tangent}
        for taped in reversed(self.tape):
            above = gradient.get(taped.output)
            if above is None:
                continue
            for number in taped.inputs:
                owner = self._owner(number)
                if owner in self.constant:
                    continue
                size = self.values[owner].size_bytes // NUMBER_BYTES
                made = self.op(
                    f"{taped.kind}_backward",
                    [above, *taped.read],
                    [size],
                    taped.flops,
                    phase="backward",
                )[0]
                before = gradient.get(owner)
                gradient[owner] = (
                    made if before is None else self.op("add", [before, made], [size], phase="backward")[0]
                )
        returned = [
            gradient[number]
            for number, value in enumerate(self.values)
            if value.role == "parameter" and number in gradient
        ]
        return TrainingStep(self.name, tuple(self.values), tuple(self.ops), (loss,), tuple(returned), source)


SOURCE = "tools/make_training.py: shapes written down by hand, seconds of a roofline"


def decoder(
    layers: int = 4,
    width: int = 512,
    tokens: int = 4096,
    context: int = 512,
    heads: int = 8,
    vocabulary: int = 8192,
    dropout: bool = True,
) -> TrainingStep:
    """A decoder of transformer layers with attention written out; `tokens` of the whole batch, `context` a sequence."""
    m = Maker(f"made-decoder-{layers}")
    n, pairs = tokens * width, tokens * context * heads
    ids, targets = m.data("ids", tokens), m.data("targets", tokens)
    x = m.layer("embedding", [m.parameter("embedding", vocabulary * width), ids], [n])

    def norm(x: int) -> int:
        scale = m.parameter(f"scale_{len(m.ops)}", width)
        return m.layer("native_layer_norm", [x, scale], [n, tokens, tokens], reads="ix")

    def linear(x: int, wide: int, to: int) -> int:
        weight = m.view("t", m.parameter(f"weight_{len(m.ops)}", wide * to))
        flat = m.view("view", x)
        return m.layer("mm", [flat, weight], [tokens * to], 2 * tokens * wide * to, reads="i")

    for _ in range(layers):
        h = norm(x)
        q, k, v = (linear(h, width, width) for _ in range(3))
        scores = m.layer("bmm", [q, k], [pairs], 2 * n * context, reads="i")
        scores = m.layer("mul", [scores], [pairs])
        weights = m.layer("_softmax", [scores], [pairs], reads="o")
        if dropout:
            weights = m.layer("native_dropout", [weights], [pairs, pairs // 4], reads="x", recomputable=False)
        mixed = m.layer("bmm", [weights, v], [n], 2 * n * context, reads="i")
        x = m.layer("add", [x, linear(mixed, width, width)], [n])
        h = linear(norm(x), width, 4 * width)
        h = m.layer("gelu", [h], [4 * n], reads="i")
        x = m.layer("add", [x, linear(h, 4 * width, width)], [n])
    logits = linear(norm(x), width, vocabulary)
    logs = m.layer("_log_softmax", [logits], [tokens * vocabulary], reads="o")
    loss = m.layer("nll_loss", [logs, targets], [1], reads="i")
    return m.finish(loss, SOURCE)


def unet(levels: int = 3, channels: int = 32, size: int = 128, batch: int = 8) -> TrainingStep:
    """A U-Net: two convolutions per level, skips to the way up; 9 taps, sides halved and channels doubled per level."""
    m = Maker(f"made-unet-{levels}")
    pixels = batch * size * size

    def block(x: int, wide: int, to: int, pixels: int) -> int:
        for _ in range(2):
            weight = m.parameter(f"weight_{len(m.ops)}", 9 * wide * to)
            x = m.layer(
                "convolution",
                [x, weight],
                [pixels * to],
                18 * pixels * wide * to,
                reads="i",
                scratch=pixels * to // 4,
            )
            scale = m.parameter(f"scale_{len(m.ops)}", to)
            x = m.layer("native_batch_norm", [x, scale], [pixels * to, to, to], reads="ix")
            x = m.layer("relu", [x], [pixels * to], reads="o")
            wide = to
        return x

    x, wide = m.data("image", 3 * pixels), 3
    skips = []
    for level in range(levels):
        x = block(x, wide, channels << level, pixels >> 2 * level)
        wide = channels << level
        skips.append(x)
        kept = (pixels >> 2 * (level + 1)) * wide
        x = m.layer("max_pool2d_with_indices", [x], [kept, kept], reads="ix")
    x = block(x, wide, 2 * wide, pixels >> 2 * levels)
    wide *= 2
    for level in reversed(range(levels)):
        here, to = pixels >> 2 * level, channels << level
        x = m.layer("upsample_nearest2d", [x], [here * wide])
        x = m.layer("cat", [x, skips[level]], [here * (wide + to)])
        x = block(x, wide + to, to, here)
        wide = to
    weight = m.parameter("head", wide)
    x = m.layer("convolution", [x, weight], [pixels], 2 * pixels * wide, reads="i")
    loss = m.layer("mse_loss", [x, m.data("target", pixels)], [1], reads="i")
    return m.finish(loss, SOURCE)


def random_step(seed: int, ops: int = 8) -> TrainingStep:
    """A small step with all that the rules speak of, from views and ops of every phase to empty values."""
    rng = np.random.default_rng(seed)
    m = Maker(f"made-random-{seed}")
    there = [m.parameter("p", int(rng.integers(1, 9))), m.data("i", int(rng.integers(1, 9)))]
    main = list(there)

    def some(among: list[int], most: int) -> list[int]:
        count = int(rng.integers(1, most + 1))
        return sorted({among[int(k)] for k in rng.integers(max(0, len(among) - 5), len(among), count)})

    for _ in range(ops):
        draw = rng.random()
        if draw < 0.15:
            kind = "forward" if rng.random() < 0.5 else "either"
            there.append(m.view("view", there[int(rng.integers(len(there)))], kind))
            continue
        aside = draw < 0.35
        made = m.op(
            "f",
            some(there if aside else main, 3),
            [int(rng.integers(0 if rng.random() < 0.2 else 1, 9)) for _ in range(int(rng.integers(1, 3)))],
            float(rng.integers(1, 20)) * 1e7,
            phase="either" if aside else "forward",
            recomputable=bool(rng.random() < 0.85),
            scratch=int(rng.integers(0, 5)),
        )
        there += made
        main += [] if aside else made
    outputs = tuple(some(main, 2))
    late = [m.value("tangent", int(rng.integers(1, 5)) * NUMBER_BYTES, role="tangent")]
    gradients = []
    for at in range(int(rng.integers(2, ops))):
        span = max(1, len(there) - at * len(there) // ops)
        read = [late[int(rng.integers(len(late)))], *some(there[:span], 2)]
        late += m.op(
            "b",
            read,
            [int(rng.integers(1, 7)) for _ in range(int(rng.integers(1, 3)))],
            float(rng.integers(1, 20)) * 1e7,
            phase="backward",
            scratch=int(rng.integers(0, 5)),
        )
        if rng.random() < 0.3:
            late.append(m.view("view", late[-1], "backward"))
        if rng.random() < 0.4:
            gradients.append(late[-1])
    if rng.random() < 0.3:
        gradients.append(there[int(rng.integers(len(there)))])
    return TrainingStep(
        m.name, tuple(m.values), tuple(m.ops), outputs, tuple(gradients), "tools/make_training.py"
    )


def main() -> None:
    """Write the step that the command line asks for."""
    parser = argparse.ArgumentParser(description="make a training step")
    parser.add_argument("what", choices=("decoder", "unet", "random"))
    parser.add_argument("file")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--levels", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    made = {
        "decoder": lambda: decoder(given.layers),
        "unet": lambda: unet(given.levels),
        "random": lambda: random_step(given.seed),
    }[given.what]()
    text = to_json(made).encode()
    Path(given.file).write_bytes(lzma.compress(text) if given.file.endswith(".xz") else text)


if __name__ == "__main__":
    main()
