"""The grammar of FFT plans: what a plan is, how it is written, and the rules that make one.

A plan says how a DFT of one size is computed; sub-plans may be asked for many DFTs at once, spread over memory in any
way, and the rules say in which order that is done and where intermediate results lie.

    12            a codelet: straight-line code for 12 points
    f(R,M)        decimation in frequency, n = r m: DFTs by R, twiddle factors, DFTs by M
    t(R,M)        decimation in time, n = r m: DFTs by M, twiddle factors, DFTs by R
    fs(R,M)       the same, and ts(R,M): results between the two are sorted, so that what runs side by side lies side
                  by side (Stockham)
    l1(P) l8(P)   where many DFTs are asked for: one (eight) after the other, each by P from start to end (depth first;
                  else every step of P is done for all of them: breadth first)
    c1(P) c8(P)   the same, and the input of each is first copied together (buffering)
    r(P)          Rader: a prime p by two DFTs of p - 1
    z37(P)        Bluestein: 37 points by two DFTs of the size of P, at least 2 * 37 - 1

Sources: TAG (de Mesmay et al., ICML 2009), sections 2 and 4, for plans as words of an acyclic grammar; the rules are
those of general-size libraries (Voronenko: Library generation for linear transforms, 2008; Frigo and Johnson, 2005).

Deviations: the paper's text breaks off before its own grammar. Good-Thomas is inside the codelets only. Bluestein
is proposed only where a size has a prime factor from RADER_FROM on, at the next sizes 2^k, 3 2^k and 5 2^k; any
plan that is written down is run. A wrapper (l, c) is proposed only below the root, where there may be many DFTs,
only if there is no codelet, and not around another one.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Literal

MOST = 1 << 24
LARGEST_CODELET = 64
LARGEST_PRIME_CODELET = 31
SMOOTH = (2, 3, 5, 7, 11, 13)
RADER_FROM = 17
"""Rader is proposed for primes from here on, Bluestein for sizes with such a prime factor."""
BLOCKS = (1, 8)


@dataclass(frozen=True)
class Codelet:
    """Straight-line code."""

    size: int

    def __str__(self) -> str:
        return str(self.size)


@dataclass(frozen=True)
class Split:
    """Cooley-Tukey: `radix` times `rest`, in frequency ("f") or time ("t"); results between, sorted or in blocks."""

    direction: Literal["f", "t"]
    sort: bool
    radix: Plan
    rest: Plan

    @property
    def size(self) -> int:
        """Of the DFT."""
        return self.radix.size * self.rest.size

    def __str__(self) -> str:
        return f"{self.direction}{'s' if self.sort else ''}({self.radix},{self.rest})"


@dataclass(frozen=True)
class Loop:
    """So many DFTs at a time, each block from start to end, its input copied together first or not."""

    block: int
    copy: bool
    inner: Plan

    @property
    def size(self) -> int:
        """Of each DFT."""
        return self.inner.size

    def __str__(self) -> str:
        return f"{'c' if self.copy else 'l'}{self.block}({self.inner})"


@dataclass(frozen=True)
class Rader:
    """A prime size, by a cyclic convolution of one less."""

    inner: Plan

    @property
    def size(self) -> int:
        """The prime."""
        return self.inner.size + 1

    def __str__(self) -> str:
        return f"r({self.inner})"


@dataclass(frozen=True)
class Bluestein:
    """Any size, by a convolution of another size."""

    size: int
    inner: Plan

    def __str__(self) -> str:
        return f"z{self.size}({self.inner})"


@dataclass(frozen=True)
class Open:
    """A sub-problem that no rule has been applied to; `bare`: no wrapper may come."""

    size: int
    bare: bool = False

    def __str__(self) -> str:
        return f"?{self.size}{'!' if self.bare else ''}"


Plan = Codelet | Split | Loop | Rader | Bluestein | Open


@functools.cache
def prime_factors(n: int) -> tuple[int, ...]:
    """Of n >= 1, with repetitions, rising."""
    found, p = [], 2
    while p * p <= n:
        while n % p == 0:
            found.append(p)
            n //= p
        p += 1
    return tuple([*found, n] if n > 1 else found)


def has_codelet(n: int) -> bool:
    """Whether straight-line code is made for n points."""
    return 1 <= n <= LARGEST_CODELET and (
        n <= LARGEST_PRIME_CODELET + 1 or all(p in SMOOTH for p in prime_factors(n))
    )


@functools.cache
def divisors(n: int) -> tuple[int, ...]:
    """All that split n: 1 < d < n, rising."""
    small = [d for d in range(2, int(n**0.5) + 1) if n % d == 0]
    return tuple(sorted({*small, *(n // d for d in small)}))


@functools.cache
def convolution_sizes(n: int) -> tuple[int, ...]:
    """The sizes at which Bluestein is proposed for n points, rising."""
    least = 2 * n - 1
    return tuple(sorted(f << max(0, (-(-least // f) - 1).bit_length()) for f in (1, 3, 5)))


@functools.cache
def rules(size: int, bare: bool) -> tuple[Plan, ...]:
    """What an open sub-problem may become, in a fixed order; never empty for 1 <= size <= 2^25."""
    found: list[Plan] = [Codelet(size)] if has_codelet(size) else []
    for radix in divisors(size):
        pair = Open(radix), Open(size // radix)
        found += [Split(d, sort, *pair) for d in ("f", "t") for sort in (True, False)]
    factors = prime_factors(size)
    if factors and factors[-1] >= RADER_FROM:
        if len(factors) == 1:
            found.append(Rader(Open(size - 1, bare=True)))
        found += [Bluestein(size, Open(m, bare=True)) for m in convolution_sizes(size)]
    if not bare and not has_codelet(size):
        found += [Loop(block, copy, Open(size, bare=True)) for copy in (False, True) for block in BLOCKS]
    return tuple(found)


def expand(plan: Plan) -> tuple[Plan, ...]:
    """The plans that follow by one rule at the leftmost open sub-problem; none for a complete plan."""
    match plan:
        case Open(size, bare):
            return rules(size, bare)
        case Split(direction, sort, radix, rest):
            first = expand(radix)
            if first:
                return tuple(Split(direction, sort, new, rest) for new in first)
            return tuple(Split(direction, sort, radix, new) for new in expand(rest))
        case Loop(block, copy, inner):
            return tuple(Loop(block, copy, new) for new in expand(inner))
        case Rader(inner):
            return tuple(Rader(new) for new in expand(inner))
        case Bluestein(size, inner):
            return tuple(Bluestein(size, new) for new in expand(inner))
    return ()


@functools.cache
def count(size: int, bare: bool = True) -> int:
    """The number of complete plans of a size; `bare` as at the root."""
    total = 0
    for rule in rules(size, bare):
        match rule:
            case Codelet():
                total += 1
            case Split(_, _, radix, rest):
                total += count(radix.size, False) * count(rest.size, False)
            case Loop(_, _, inner) | Rader(inner) | Bluestein(_, inner):
                total += count(inner.size, True)
    return total
