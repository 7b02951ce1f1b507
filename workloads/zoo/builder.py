"""A small builder of workloads: it follows shapes and writes consistent ops.

Every element is one byte (int8), ids of tokens are four. Weights of an op include its bias where it has one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from inspect import Parameter, Signature, signature
from math import prod
from typing import ParamSpec

from workloads.workload import MAX_OPS, Edge, Gemm, Op, Shape3, Workload, check
from workloads.zoo.vector_ops import VECTOR_OPS

P = ParamSpec("P")

ID_BYTES = 4
"""Bytes of a token id, token type or mask entry that the host hands over (int32)."""


@dataclass(frozen=True)
class Tensor:
    """What an op reads: (a part of) the activation of `source`; of the network's input where it is None."""

    source: str | None
    shape: Shape3
    batch: int
    element_bytes: int = 1

    @property
    def elements(self) -> int:
        """Elements of one sample."""
        return prod(self.shape)

    @property
    def read_bytes(self) -> int:
        """Bytes that reading it costs, the whole batch."""
        return self.batch * self.elements * self.element_bytes

    def view(self, shape: Shape3) -> Tensor:
        """The same elements in another shape.

        Raises ValueError where the number of elements differs.
        """
        if prod(shape) != self.elements:
            raise ValueError(f"shape: expected {self.elements} elements, received {shape}")
        return replace(self, shape=shape)

    def part(self, shape: Shape3) -> Tensor:
        """A slice or a crop of this shape; only its elements are read.

        Raises ValueError where it is no part.
        """
        if any(small > large for small, large in zip(shape, self.shape, strict=True)):
            raise ValueError(f"shape: expected at most {self.shape}, received {shape}")
        return replace(self, shape=shape)


@dataclass(frozen=True)
class Window:
    """Kernel, stride, padding, dilation and groups of a convolution or a pooling."""

    kernel: tuple[int, int]
    stride: int
    pad: int
    dilation: int
    groups: int


def window_size(name: str, size: int, kernel: int, stride: int, pad: int) -> int:
    """Positions of a window along an axis of `size` elements.

    Raises ValueError where there is none.
    """
    if size + 2 * pad < kernel:
        raise ValueError(f"resolution: expected at least {kernel - 2 * pad} at {name}, received {size}")
    return (size + 2 * pad - kernel) // stride + 1


class Builder:
    """Collects ops in execution order; each method appends one op and returns its output."""

    def __init__(self, batch: int) -> None:
        if batch < 1:
            raise ValueError(f"batch: expected at least 1, received {batch}")
        self.batch = batch
        self.ops: list[Op] = []

    def input(self, shape: Shape3, element_bytes: int = 1) -> Tensor:
        """The network's own input; no op, it is read from outside."""
        return Tensor(None, shape, self.batch, element_bytes)

    def build(self, name: str, outputs: Sequence[Tensor], source: str) -> Workload:
        """The checked workload, with the ops behind `outputs` marked as results."""
        results = {t.source for t in outputs}
        ops = tuple(replace(op, is_output=op.name in results) for op in self.ops)
        return check(Workload(name, ops, source=source))

    def add(
        self,
        name: str,
        kind: str,
        inputs: Sequence[Tensor],
        ofm: Shape3,
        *,
        weights: int = 0,
        weights_read: int | None = None,
        parameters: int | None = None,
        gemm: Gemm | None = None,
        vector_ops: int = 0,
        outputs: int = 1,
        batch: int | None = None,
        window: Window | None = None,
    ) -> Tensor:
        """Append an op; the first input is the main one.

        `weights` elements are held, `weights_read` of them read (all unless stated), `parameters` of them
        counted (all unless stated). `vector_ops` is for the whole batch. With several `outputs`, `ofm` is the
        shape of each. Returns one output.

        Raises ValueError where there are as many ops as a workload may have, before millions more are made.
        """
        if len(self.ops) >= MAX_OPS:
            raise ValueError(f"ops: expected at most {MAX_OPS} ops, received more")
        batch = self.batch if batch is None else batch
        read = weights if weights_read is None else weights_read
        w = window if window is not None else Window((0, 0), 0, 0, 0, 0)
        self.ops.append(
            Op(
                name=name,
                kind=kind,
                inputs=tuple(Edge(t.source, t.read_bytes) for t in inputs if t.source is not None),
                ifm=inputs[0].shape if inputs else ofm,
                ofm=ofm,
                output_bytes=outputs * batch * prod(ofm),
                external_bytes=sum(t.read_bytes for t in inputs if t.source is None),
                weight_bytes=weights,
                weight_read_bytes=read,
                parameters=weights if parameters is None else parameters,
                gemm=gemm,
                vector_ops=vector_ops,
                kernel=w.kernel,
                stride=w.stride,
                pad=w.pad,
                dilation=w.dilation,
                groups=w.groups,
                batch=batch,
            )
        )
        return Tensor(name, ofm, batch)

    def pointwise(
        self,
        name: str,
        kind: str,
        inputs: Sequence[Tensor],
        work: str,
        *,
        ofm: Shape3 | None = None,
        weights: int = 0,
    ) -> Tensor:
        """An op with a fixed amount of work an output element (`work`: a key of `VECTOR_OPS`)."""
        shape = inputs[0].shape if ofm is None else ofm
        work_ops = VECTOR_OPS[work] * self.batch * prod(shape)
        return self.add(name, kind, inputs, shape, weights=weights, vector_ops=work_ops)

    def conv(
        self,
        name: str,
        x: Tensor,
        channels: int,
        kernel: int | tuple[int, int],
        *,
        stride: int = 1,
        pad: int | tuple[int, int] | None = None,
        dilation: int = 1,
        groups: int = 1,
        act: str = "",
        skip: Tensor | None = None,
    ) -> Tensor:
        """Convolution with bias (a folded batch norm), a fused residual add of `skip` and activation `act`.

        `kernel` and `pad` are one number or (x, y); of two paddings the op states the larger. Padding keeps the size
        at stride 1 unless stated (odd kernels).

        Raises ValueError where the input is smaller than the kernel, `groups` does not divide the channels or
        `skip` has another shape.
        """
        kernel = (kernel, kernel) if isinstance(kernel, int) else kernel
        if pad is None:
            pad = (kernel[0] // 2 * dilation, kernel[1] // 2 * dilation)
        elif isinstance(pad, int):
            pad = (pad, pad)
        width, height, depth = x.shape
        if channels < 1 or groups < 1:
            raise ValueError(f"channels: expected at least 1 at {name}, received {min(channels, groups)}")
        if depth % groups or channels % groups:
            raise ValueError(
                f"groups: expected a divisor of {depth} and {channels} channels at {name}, received {groups}"
            )
        ofm = (
            window_size(name, width, dilation * (kernel[0] - 1) + 1, stride, pad[0]),
            window_size(name, height, dilation * (kernel[1] - 1) + 1, stride, pad[1]),
            channels,
        )
        if skip is not None and skip.shape != ofm:
            raise ValueError(f"skip: expected shape {ofm} at {name}, received {skip.shape}")
        reduction = depth // groups * prod(kernel)
        gemm = Gemm(groups, self.batch * ofm[0] * ofm[1], channels // groups, reduction)
        tail = VECTOR_OPS[act] + (VECTOR_OPS["add"] if skip is not None else 0)
        depthwise = groups == depth == channels and groups > 1
        return self.add(
            name,
            "depthwise_conv" if depthwise else "conv",
            [x] if skip is None else [x, skip],
            ofm,
            weights=channels * reduction + channels,
            gemm=gemm,
            vector_ops=tail * self.batch * prod(ofm),
            window=Window(kernel, stride, max(pad), dilation, groups),
        )

    def up_conv(self, name: str, x: Tensor, channels: int, factor: int) -> Tensor:
        """Transposed convolution with bias, kernel = stride = `factor`: each input pixel makes a tile."""
        width, height, depth = x.shape
        cols = channels * factor * factor
        return self.add(
            name,
            "conv",
            [x],
            (width * factor, height * factor, channels),
            weights=depth * cols + channels,
            gemm=Gemm(1, self.batch * width * height, cols, depth),
            window=Window((factor, factor), factor, 0, 1, 1),
        )

    def max_pool(
        self, name: str, x: Tensor, kernel: int, stride: int, pad: int = 0, *, ceil: bool = False
    ) -> Tensor:
        """Max pooling; the size is rounded down, or with `ceil` up."""
        width, height, channels = x.shape
        more = stride - 1 if ceil else 0
        ofm = (
            window_size(name, width + more, kernel, stride, pad),
            window_size(name, height + more, kernel, stride, pad),
            channels,
        )
        work = self.batch * prod(ofm) * kernel * kernel
        window = Window((kernel, kernel), stride, pad, 1, 0)
        return self.add(name, "pool", [x], ofm, vector_ops=work, window=window)

    def average_pool(self, name: str, x: Tensor, size: int = 1) -> Tensor:
        """Adaptive average pooling to size x size (1: global)."""
        ofm = (size, size, x.shape[2])
        return self.add(name, "pool", [x], ofm, vector_ops=self.batch * max(x.elements, prod(ofm)))

    def linear(self, name: str, x: Tensor, features: int, *, act: str = "") -> Tensor:
        """Fully connected layer over the flattened input, with a fused bias and activation."""
        flat = x.view((1, 1, x.elements))
        gemm = Gemm(1, self.batch, features, x.elements)
        tail = VECTOR_OPS[act] * self.batch * features
        weights = x.elements * features + features
        return self.add(name, "matmul", [flat], (1, 1, features), weights=weights, gemm=gemm, vector_ops=tail)

    def dense(self, name: str, x: Tensor, features: int, *, act: str = "") -> Tensor:
        """Fully connected layer over the last axis alone, with a fused bias and activation."""
        length, rows, hidden = x.shape
        ofm = (length, rows, features)
        gemm = Gemm(1, self.batch * length * rows, features, hidden)
        tail = VECTOR_OPS[act] * self.batch * prod(ofm)
        return self.add(
            name, "matmul", [x], ofm, weights=hidden * features + features, gemm=gemm, vector_ops=tail
        )

    def concat(self, name: str, parts: Sequence[Tensor]) -> Tensor:
        """Feature maps of one size, channel after channel."""
        width, height, _ = parts[0].shape
        ofm = (width, height, sum(t.shape[2] for t in parts))
        return self.pointwise(name, "concat", parts, "copy", ofm=ofm)

    def matmul(self, name: str, x: Tensor, features: int, *, parameters: int | None = None) -> Tensor:
        """[length, hidden] x weights [hidden, features], no bias."""
        length, rows, hidden = x.shape
        gemm = Gemm(1, self.batch * length * rows, features, hidden)
        ofm = (length, rows, features)
        return self.add(name, "matmul", [x], ofm, weights=hidden * features, parameters=parameters, gemm=gemm)

    def gather(self, name: str, ids: Sequence[Tensor], rows: int, hidden: int, length: int) -> Tensor:
        """`length` rows a sample of a table [rows, hidden]; without ids the first, once for the batch."""
        batch = self.batch if ids else 1
        return self.add(
            name,
            "embedding",
            ids,
            (length, 1, hidden),
            weights=rows * hidden,
            weights_read=min(batch * length, rows) * hidden,
            vector_ops=VECTOR_OPS["copy"] * batch * length * hidden,
            batch=batch,
        )


def variant_name(base: str, build: Callable[..., Workload], **given: object) -> str:
    """`base`, followed by -KEYVALUE for every parameter of `build` that was not given its default."""
    known = signature(build).parameters
    return base + "".join(f"-{key}{value}" for key, value in given.items() if value != known[key].default)


def network(build: Callable[P, Workload]) -> Callable[P, Workload]:
    """The same builder; its workloads are named after it and its arguments that are not at their defaults.

    Arguments stand in the name in the order in which the builder declares them.
    """

    @wraps(build)
    def named(*args: P.args, **kwargs: P.kwargs) -> Workload:
        base = build.__name__ + "".join(f"_{arg}" for arg in args)
        given = {key: kwargs[key] for key in signature(build).parameters if key in kwargs}
        return replace(build(*args, **kwargs), name=variant_name(base, build, **given))

    return named


def sized(name: str, make: Callable[..., Workload], **sizes: int) -> Callable[..., Workload]:
    """The builder of a network that takes each of `sizes` by keyword; its workloads are named as by `network`.

    `make` takes all sizes by keyword and returns the workload, under any name. A switch stands in the name as 0 or 1.
    The builder raises TypeError for an unknown keyword, and what `make` raises.
    """

    def build(**given: int) -> Workload:
        if unknown := given.keys() - sizes.keys():
            raise TypeError(f"{name}: expected sizes among {', '.join(sizes)}, received {', '.join(unknown)}")
        asked = {key: int(given[key]) for key in sizes if key in given}
        return replace(make(**{**sizes, **given}), name=variant_name(name, build, **asked))

    parameters = [Parameter(key, Parameter.KEYWORD_ONLY, default=value) for key, value in sizes.items()]
    build.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return build
