"""Straight-line DFTs of small sizes as graphs of real operations, each operation once.

Source: the way of FFTW's genfft (Frigo: A fast Fourier transform compiler, PLDI 1999): write a DFT down by the known
algorithms over symbols, let equal expressions be one node, keep signs out of the nodes so that x - y and y - x share
one. Sizes that are coprime products go by Good and Thomas (no twiddle factors), other composites by Cooley and Tukey,
primes by the definition with the symmetry of cosines and sines (x[j] + x[p-j] and x[j] - x[p-j] each once).

Deviations: no linear-network transposition, and no scheduling: nodes are in the order in which the algorithms name
them, and the compiler's own scheduler does the rest. Multiplications stay apart from additions; the code generator
lets the compiler contract them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

Real = tuple[int, int]
"""A sign (+1, -1, or 0 for zero) and the number of a node."""
Complex = tuple[Real, Real]
ZERO: Real = (0, -1)


@dataclass(frozen=True)
class Node:
    """`load` (a: input, b: 0 real or 1 imaginary), `add`, `sub` (a, b: nodes), `mul` (a: node, constant)."""

    kind: str
    a: int
    b: int = -1
    constant: float = 0.0


@dataclass
class Graph:
    """Nodes in an order in which each follows what it needs."""

    nodes: list[Node] = field(default_factory=list)
    _known: dict[Node, int] = field(default_factory=dict)

    def _node(self, node: Node) -> int:
        if node not in self._known:
            self._known[node] = len(self.nodes)
            self.nodes.append(node)
        return self._known[node]

    def load(self, element: int) -> Complex:
        """Input `element`."""
        return (1, self._node(Node("load", element, 0))), (1, self._node(Node("load", element, 1)))

    def add(self, x: Real, y: Real) -> Real:
        """x + y."""
        if x[0] == 0 or y[0] == 0:
            return y if x[0] == 0 else x
        if x[1] == y[1]:
            return self.scale(2.0, x) if x[0] == y[0] else ZERO
        if x[1] > y[1]:
            x, y = y, x
        if x[0] == y[0]:
            return x[0], self._node(Node("add", x[1], y[1]))
        return x[0], self._node(Node("sub", x[1], y[1]))

    def sub(self, x: Real, y: Real) -> Real:
        """x - y."""
        return self.add(x, (-y[0], y[1]))

    def scale(self, constant: float, x: Real) -> Real:
        """constant * x."""
        if x[0] == 0 or constant == 0.0:
            return ZERO
        sign = x[0] if constant > 0 else -x[0]
        if abs(constant) == 1.0:
            return sign, x[1]
        return sign, self._node(Node("mul", x[1], constant=abs(constant)))

    def plus(self, x: Complex, y: Complex) -> Complex:
        """x + y of complex numbers."""
        return self.add(x[0], y[0]), self.add(x[1], y[1])

    def minus(self, x: Complex, y: Complex) -> Complex:
        """x - y of complex numbers."""
        return self.sub(x[0], y[0]), self.sub(x[1], y[1])

    def turn(self, x: Complex, angle: Fraction) -> Complex:
        """x * exp(-2 pi i angle)."""
        c, s = cosine(angle), sine(angle)
        if abs(abs(c) - abs(s)) < 1e-12:
            both, apart = self.add(x[0], x[1]), self.sub(x[1], x[0])
            if c > 0:
                pair = (both, apart) if s > 0 else ((-apart[0], apart[1]), both)
            else:
                pair = (apart, (-both[0], both[1])) if s > 0 else ((-both[0], both[1]), (-apart[0], apart[1]))
            return self.scale(abs(c), pair[0]), self.scale(abs(c), pair[1])
        real = self.add(self.scale(c, x[0]), self.scale(s, x[1]))
        return real, self.sub(self.scale(c, x[1]), self.scale(s, x[0]))


def cosine(angle: Fraction) -> float:
    """cos(2 pi angle), equal for equal values: every angle is brought to the first eighth of a turn."""
    angle = angle % 1
    if angle > Fraction(1, 2):
        angle = 1 - angle
    if angle > Fraction(1, 4):
        return -cosine(Fraction(1, 2) - angle)
    if angle == Fraction(1, 4):
        return 0.0
    if angle > Fraction(1, 8):
        return math.sin(2 * math.pi * float(Fraction(1, 4) - angle))
    return math.cos(2 * math.pi * float(angle))


def sine(angle: Fraction) -> float:
    """sin(2 pi angle)."""
    return cosine(angle - Fraction(1, 4))


def dft(graph: Graph, x: Sequence[Complex]) -> list[Complex]:
    """The DFT of symbols, X[k] = sum over j of x[j] exp(-2 pi i j k / n), in order of k."""
    n = len(x)
    if n == 1:
        return list(x)
    r = _split(n)
    if r == n:
        return _prime(graph, x)
    m = n // r
    if math.gcd(r, m) == 1:
        columns = [dft(graph, [x[(j1 * m + j2 * r) % n] for j1 in range(r)]) for j2 in range(m)]
        rows = [dft(graph, [columns[j2][k1] for j2 in range(m)]) for k1 in range(r)]
        return [rows[k % r][k % m] for k in range(n)]
    columns = [dft(graph, [x[j2 + m * j1] for j1 in range(r)]) for j2 in range(m)]
    turned = [[graph.turn(columns[j2][k1], Fraction(j2 * k1, n)) for j2 in range(m)] for k1 in range(r)]
    rows = [dft(graph, row) for row in turned]
    return [rows[k % r][k // r] for k in range(n)]


def _split(n: int) -> int:
    """The first factor: near the root for powers of a prime, else the largest power of the smallest prime."""
    smallest = next(p for p in range(2, n + 1) if n % p == 0)
    power = 1
    while n % (power * smallest) == 0:
        power *= smallest
    if power != n:
        return power
    exponent = round(math.log(n, smallest))
    return int(smallest ** -(-exponent // 2)) if exponent > 1 else n


def _prime(graph: Graph, x: Sequence[Complex]) -> list[Complex]:
    p = len(x)
    if p == 2:
        return [graph.plus(x[0], x[1]), graph.minus(x[0], x[1])]
    half = range(1, (p + 1) // 2)
    sums = [graph.plus(x[j], x[p - j]) for j in half]
    differences = [graph.minus(x[j], x[p - j]) for j in half]
    out = [x[0]] * p
    for pair in sums:
        out[0] = graph.plus(out[0], pair)
    for k in half:
        even, odd = x[0], (ZERO, ZERO)
        for j, pair, difference in zip(half, sums, differences, strict=True):
            c, s = cosine(Fraction(j * k, p)), sine(Fraction(j * k, p))
            even = graph.plus(even, (graph.scale(c, pair[0]), graph.scale(c, pair[1])))
            odd = graph.plus(odd, (graph.scale(s, difference[0]), graph.scale(s, difference[1])))
        out[k] = graph.add(even[0], odd[1]), graph.sub(even[1], odd[0])
        out[p - k] = graph.sub(even[0], odd[1]), graph.add(even[1], odd[0])
    return out
