"""The text of a codelet in LLVM's language: vectors of DFTs first, then what is left of them one by one.

In memory numbers are complex128. In registers real and imaginary parts are apart, in an order of lanes that costs one
shuffle for a register on the way in and one on the way out; twiddle factors come the same way.
"""

from __future__ import annotations

import struct

from egrl_fft.instructions import ARGUMENTS, Kind
from egrl_fft.symbols import Complex, Graph, Real, dft


class _Body:
    """Writes one DFT of `lanes` vectors, or of one."""

    def __init__(self, kind: Kind, width: int, label: str) -> None:
        self.kind, self.width, self.label = kind, width, label
        self.type = f"<{width} x double>" if width > 1 else "double"
        self.lines: list[str] = []
        self._count = 0

    def new(self, text: str) -> str:
        self._count += 1
        name = f"%{self.label}{self._count}"
        self.lines.append(f"  {name} = {text}")
        return name

    def constant(self, value: float) -> str:
        bits = f"0x{struct.unpack('>Q', struct.pack('>d', value))[0]:016X}"
        if self.width == 1:
            return bits
        return "<" + ", ".join([f"double {bits}"] * self.width) + ">"

    def address(self, base: str, *strides: str) -> str:
        for stride in strides:
            base = self.new(f"getelementptr double, ptr {base}, i64 {stride}")
        return base

    def _lane_mask(self, odd: int) -> str:
        picks = [i // 2 * 2 + odd + (i % 2) * self.width for i in range(self.width)]
        return f"<{self.width} x i32> <" + ", ".join(f"i32 {p}" for p in picks) + ">"

    def _interleave(self, a: str, b: str) -> tuple[str, str]:
        """Two registers of complex numbers into real and imaginary parts, or back: it is its own inverse."""
        pair = f"{self.type} {a}, {self.type} {b}"
        return (
            self.new(f"shufflevector {pair}, {self._lane_mask(0)}"),
            self.new(f"shufflevector {pair}, {self._lane_mask(1)}"),
        )

    def load(self, pointer: str, near: bool, stride: str) -> tuple[str, str]:
        """Real and imaginary parts of `width` complex numbers."""
        if self.width == 1:
            first = self.new(f"load double, ptr {pointer}, align 8")
            return first, self.new(f"load double, ptr {self.address(pointer, '1')}, align 8")
        if near:
            a = self.new(f"load {self.type}, ptr {pointer}, align 8")
            b = self.new(f"load {self.type}, ptr {self.address(pointer, str(self.width))}, align 8")
            return self._interleave(a, b)
        parts = []
        for lane in range(self.width):
            parts.append(self.new(f"load <2 x double>, ptr {pointer}, align 8"))
            if lane + 1 < self.width:
                pointer = self.address(pointer, stride)
        half = self.width // 2
        return self._interleave(self._join(parts[:half]), self._join(parts[half:]))

    def _join(self, parts: list[str]) -> str:
        width = 2
        while len(parts) > 1:
            mask = ", ".join(f"i32 {i}" for i in range(2 * width))
            parts = [
                self.new(
                    f"shufflevector <{width} x double> {a}, <{width} x double> {b}, <{2 * width} x i32> <{mask}>"
                )
                for a, b in zip(parts[::2], parts[1::2], strict=True)
            ]
            width *= 2
        return parts[0]

    def store(self, pointer: str, near: bool, stride: str, real: str, imaginary: str) -> None:
        if self.width == 1:
            self.lines.append(f"  store double {real}, ptr {pointer}, align 8")
            self.lines.append(f"  store double {imaginary}, ptr {self.address(pointer, '1')}, align 8")
            return
        halves = self._interleave(real, imaginary)
        if near:
            self.lines.append(f"  store {self.type} {halves[0]}, ptr {pointer}, align 8")
            second = self.address(pointer, str(self.width))
            self.lines.append(f"  store {self.type} {halves[1]}, ptr {second}, align 8")
            return
        for lane in range(self.width):
            at = lane % (self.width // 2) * 2
            half = halves[lane // (self.width // 2)]
            part = (
                half
                if self.width == 2
                else self.new(
                    f"shufflevector {self.type} {half}, {self.type} {half}, <2 x i32> <i32 {at}, i32 {at + 1}>"
                )
            )
            self.lines.append(f"  store <2 x double> {part}, ptr {pointer}, align 8")
            if lane + 1 < self.width:
                pointer = self.address(pointer, stride)

    def spread(self, pointer: str) -> tuple[str, str]:
        """One complex number in every lane."""
        scalars = [
            self.new(f"load double, ptr {pointer}, align 8"),
            self.new(f"load double, ptr {self.address(pointer, '1')}, align 8"),
        ]
        if self.width == 1:
            return scalars[0], scalars[1]
        filled = []
        for scalar in scalars:
            first = self.new(f"insertelement {self.type} poison, double {scalar}, i32 0")
            filled.append(
                self.new(
                    f"shufflevector {self.type} {first}, {self.type} poison, <{self.width} x i32> zeroinitializer"
                )
            )
        return filled[0], filled[1]

    def operation(self, name: str, a: str, b: str) -> str:
        return self.new(f"{name} contract {self.type} {a}, {b}")

    def times(self, x: tuple[str, str], w: tuple[str, str]) -> tuple[str, str]:
        rr, ii = self.operation("fmul", x[0], w[0]), self.operation("fmul", x[1], w[1])
        ri, ir = self.operation("fmul", x[0], w[1]), self.operation("fmul", x[1], w[0])
        return self.operation("fsub", rr, ii), self.operation("fadd", ri, ir)

    def multiply_by_twiddle(self, element: int, x: tuple[str, str], index: str) -> tuple[str, str]:
        """x times the twiddle factor of an element, if it has one; `index`: doubles to the vector's own."""
        size, kind = self.kind.size, self.kind.twiddle
        if element == 0 and size > 1:
            return x
        row = element - 1 if size > 1 else 0
        pointer = self.address("%to", f"%tk{row}" if row else "0")
        if kind.endswith("each"):
            return self.times(x, self.load(self.address(pointer, index), True, "2"))
        return self.times(x, self.spread(pointer))

    def write(self, source: str, target: str, index: str) -> list[str]:
        """The lines: `source`, `target`: pointers to element 0 of the first vector."""
        size, kind = self.kind.size, self.kind.twiddle
        graph = Graph()
        outputs: list[Complex] = dft(graph, [graph.load(j) for j in range(size)])
        loaded: dict[int, tuple[str, str]] = {}
        values: list[str] = []
        for node in graph.nodes:
            if node.kind == "load":
                if node.a not in loaded:
                    pointer = self.address(source, f"%is{node.a}") if node.a else source
                    x = self.load(pointer, self.kind.near_in, "%iv")
                    loaded[node.a] = (
                        self.multiply_by_twiddle(node.a, x, index) if kind.startswith("pre") else x
                    )
                values.append(loaded[node.a][node.b])
            elif node.kind == "mul":
                values.append(self.operation("fmul", values[node.a], self.constant(node.constant)))
            else:
                values.append(self.operation("f" + node.kind, values[node.a], values[node.b]))

        def value(real: Real) -> str:
            if real[0] == 0:
                return self.constant(0.0)
            return values[real[1]] if real[0] > 0 else self.new(f"fneg {self.type} {values[real[1]]}")

        for k, out in enumerate(outputs):
            y = value(out[0]), value(out[1])
            if kind.startswith("post"):
                y = self.multiply_by_twiddle(k, y, index)
            if self.kind.conjugate:
                y = y[0], self.new(f"fneg {self.type} {y[1]}")
            pointer = self.address(target, f"%os{k}") if k else target
            self.store(pointer, self.kind.near_out, "%ov", *y)
        return self.lines


def assembly(kind: Kind, width: int) -> str:
    """The text of a codelet in LLVM's language, `width` float64 to a register.

    Its blocks: `turns` begins a turn of the outer loop, `wide` does DFTs `width` at a time, `rest` and `single` do what
    is left one by one, `turn` ends the turn.
    """
    lines = [*_prologue(kind, width), *_turns(), *_wide(kind, width), *_single(kind), *_epilogue()]
    return "\n".join(lines) + "\n"


def _prologue(kind: Kind, width: int) -> list[str]:
    """Load the arguments, strides in doubles, and multiply out the strides of the elements."""
    lines = [f"define void @{kind.name}(ptr %x, ptr %y, ptr noalias %t, ptr noalias %args) #0 {{", "entry:"]
    for number, name in enumerate(ARGUMENTS):
        lines.append(f"  %p.{name} = getelementptr i64, ptr %args, i64 {number}")
        lines.append(f"  %a.{name} = load i64, ptr %p.{name}, align 8")
        if name not in ("count", "outer", "overlap"):
            # The argument "to" is %to.s: %to is the pointer to a turn's factors.
            lines.append(f"  %{'to.s' if name == 'to' else name} = shl i64 %a.{name}, 1")
    for j in range(1, kind.size):
        lines += [
            f"  %is{j} = mul i64 %is, {j}",
            f"  %os{j} = mul i64 %os, {j}",
            f"  %tk{j} = mul i64 %tk, {j}",
        ]
    return [
        *lines,
        f"  %whole = icmp sge i64 %a.count, {width}",
        "  %some = icmp ne i64 %a.overlap, 0",
        "  %again = and i1 %whole, %some",
        f"  %last = sub i64 %a.count, {width}",
        "  br label %turns",
    ]


def _turns() -> list[str]:
    """Begin a turn of the outer loop: pointers to its first vectors and its factors."""
    return [
        "turns:",
        "  %o = phi i64 [ 0, %entry ], [ %o.next, %turn ]",
        "  %xo.at = mul i64 %o, %oi",
        "  %xo = getelementptr double, ptr %x, i64 %xo.at",
        "  %yo.at = mul i64 %o, %oo",
        "  %yo = getelementptr double, ptr %y, i64 %yo.at",
        "  %to.at = mul i64 %o, %to.s",
        "  %to = getelementptr double, ptr %t, i64 %to.at",
        "  br i1 %whole, label %wide, label %rest",
    ]


def _wide(kind: Kind, width: int) -> list[str]:
    """DFTs `width` at a time; where allowed, the last of them overlap those before so that none is left."""
    return [
        "wide:",
        "  %v = phi i64 [ 0, %turns ], [ %v.next, %wide ]",
        "  %w.x.at = mul i64 %v, %iv",
        "  %w.x = getelementptr double, ptr %xo, i64 %w.x.at",
        "  %w.y.at = mul i64 %v, %ov",
        "  %w.y = getelementptr double, ptr %yo, i64 %w.y.at",
        "  %w.t = shl i64 %v, 1",
        *_Body(kind, width, "w").write("%w.x", "%w.y", "%w.t"),
        f"  %v.full = add i64 %v, {width}",
        "  %over = icmp sgt i64 %v.full, %last",
        "  %short = icmp slt i64 %v.full, %a.count",
        "  %lap0 = and i1 %over, %short",
        "  %lap = and i1 %lap0, %again",
        "  %v.next = select i1 %lap, i64 %last, i64 %v.full",
        "  %more = icmp sle i64 %v.next, %last",
        "  br i1 %more, label %wide, label %rest",
    ]


def _single(kind: Kind) -> list[str]:
    """What is left of a turn, one DFT at a time."""
    return [
        "rest:",
        "  %s0 = phi i64 [ 0, %turns ], [ %v.next, %wide ]",
        "  %left = icmp slt i64 %s0, %a.count",
        "  br i1 %left, label %single, label %turn",
        "single:",
        "  %s = phi i64 [ %s0, %rest ], [ %s.next, %single ]",
        "  %s.x.at = mul i64 %s, %iv",
        "  %s.x = getelementptr double, ptr %xo, i64 %s.x.at",
        "  %s.y.at = mul i64 %s, %ov",
        "  %s.y = getelementptr double, ptr %yo, i64 %s.y.at",
        "  %s.t = shl i64 %s, 1",
        *_Body(kind, 1, "s").write("%s.x", "%s.y", "%s.t"),
        "  %s.next = add i64 %s, 1",
        "  %s.more = icmp slt i64 %s.next, %a.count",
        "  br i1 %s.more, label %single, label %turn",
    ]


def _epilogue() -> list[str]:
    """End a turn of the outer loop, and the function."""
    return [
        "turn:",
        "  %o.next = add i64 %o, 1",
        "  %o.more = icmp slt i64 %o.next, %a.outer",
        "  br i1 %o.more, label %turns, label %end",
        "end:",
        "  ret void",
        "}",
        'attributes #0 = { nounwind "prefer-vector-width"="512" "min-legal-vector-width"="512" }',
    ]
