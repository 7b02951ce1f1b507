"""Whether a text denotes a DFT of n points: read and done by formulas, slowly, by code of its own.

The text is evaluated as mathematics (codelets by the definition, everything else by the formulas of its signs,
nothing about memory) on inputs whose DFT is known from the definition: sums of a few impulses at random places.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from hwsim.problem import Violation

Array = NDArray[np.complex128]
TOLERANCE = 1e-10
PROBES, IMPULSES = 2, 5


def judge(text: str, size: int) -> list[Violation]:
    """Why a text is no plan for `size` points; nothing if it is one."""
    rng = np.random.default_rng(size)
    place = rng.integers(0, size, (PROBES, IMPULSES))
    weight = rng.normal(size=(PROBES, IMPULSES)) + 1j * rng.normal(size=(PROBES, IMPULSES))
    x = np.zeros((PROBES, size), np.complex128)
    expected = np.zeros((PROBES, size), np.complex128)
    for probe in range(PROBES):
        for j, w in zip(place[probe].tolist(), weight[probe].tolist(), strict=True):
            x[probe, j] += w
            expected[probe] += w * _root(j * np.arange(size, dtype=np.int64), size)
    try:
        inside = _points(text)
        if inside != size:
            return [Violation("size", text[:40], float(inside), float(size), "points")]
        found = _evaluate(text, x)
    except (ValueError, IndexError) as error:
        return [Violation(f"not a plan ({error})", text[:40], 1.0, 0.0, "")]
    error_size = float(np.abs(found - expected).max() / np.abs(expected).max())
    return [] if error_size <= TOLERANCE else [Violation("error", text[:40], error_size, TOLERANCE, "")]


def _root(exponent: NDArray[np.int64], n: int) -> Array:
    values: Array = np.exp(-2j * np.pi * (exponent % n) / n)
    return values


def _parts(text: str) -> tuple[str, list[str]]:
    """The word before the parentheses, and what stands between them, split at the outer comma."""
    match = re.fullmatch(r"([a-z]*\d*)(?:\((.*)\))?", text)
    if match is None:
        raise ValueError(f"cannot read {text[:20]!r}")
    word, inside = match.groups()
    if inside is None:
        return word, []
    depth, begin, found = 0, 0, []
    for at, sign in enumerate(inside):
        depth += (sign == "(") - (sign == ")")
        if depth < 0:
            raise ValueError(f"cannot read {text[:20]!r}")
        if sign == "," and depth == 0:
            found.append(inside[begin:at])
            begin = at + 1
    return word, [*found, inside[begin:]]


def _points(text: str) -> int:
    word, parts = _parts(text)
    if word.isdigit() and not parts:
        return int(word)
    if word in ("f", "t", "fs", "ts") and len(parts) == 2:
        return _points(parts[0]) * _points(parts[1])
    if re.fullmatch(r"[lc]\d+", word) and len(parts) == 1:
        return _points(parts[0])
    if word == "r" and len(parts) == 1:
        return _points(parts[0]) + 1
    if re.fullmatch(r"z\d+", word) and len(parts) == 1:
        return int(word[1:])
    raise ValueError(f"unknown {word[:20]!r}")


def _evaluate(text: str, x: Array) -> Array:
    """The DFTs of complex128 [..., n] as the text does them."""
    word, parts = _parts(text)
    n = x.shape[-1]
    if word.isdigit():
        k = np.arange(n, dtype=np.int64)
        return x @ _root(np.outer(k, k), n)
    if word[0] in "lc":
        return _evaluate(parts[0], x)
    if word[0] in "ft":
        return _two_steps(word[0], parts, x)
    if word[0] == "r":
        return _rader(parts[0], x)
    return _bluestein(parts[0], x)


def _two_steps(direction: str, parts: list[str], x: Array) -> Array:
    r, m = _points(parts[0]), _points(parts[1])
    n, batch = r * m, x.shape[:-1]
    if direction == "f":
        columns = _evaluate(parts[0], x.reshape(*batch, r, m).swapaxes(-1, -2))
        turned = columns * _root(np.outer(np.arange(m, dtype=np.int64), np.arange(r)), n)
        return _evaluate(parts[1], turned.swapaxes(-1, -2)).swapaxes(-1, -2).reshape(*batch, n)
    rows = _evaluate(parts[1], x.reshape(*batch, m, r).swapaxes(-1, -2))
    turned = rows * _root(np.outer(np.arange(r, dtype=np.int64), np.arange(m)), n)
    return _evaluate(parts[0], turned.swapaxes(-1, -2)).swapaxes(-1, -2).reshape(*batch, n)


def _inverse(inner: str, values: Array) -> Array:
    result: Array = _evaluate(inner, values.conj()).conj() / values.shape[-1]
    return result


def _rader(inner: str, x: Array) -> Array:
    p = x.shape[-1]
    rows = ([pow(g, k, p) for k in range(p - 1)] for g in range(2, min(p, 200)))
    powers = next((np.array(row) for row in rows if len(set(row)) == p - 1), None)
    if powers is None or any(p % d == 0 for d in range(2, int(p**0.5) + 1)):
        raise ValueError(f"{p} is no prime for Rader")
    back = np.concatenate([powers[:1], powers[:0:-1]])
    a, b = x[..., powers], _root(back.astype(np.int64), p)
    found = _inverse(inner, _evaluate(inner, a) * _evaluate(inner, b))
    out = np.empty_like(x)
    out[..., 0] = x.sum(axis=-1)
    out[..., back] = x[..., :1] + found
    return out


def _bluestein(inner: str, x: Array) -> Array:
    n, m = x.shape[-1], _points(inner)
    if m < 2 * n - 1:
        raise ValueError(f"{m} points are too few for {n}")
    chirp = _root(np.arange(n, dtype=np.int64) ** 2, 2 * n)
    a = np.zeros((*x.shape[:-1], m), np.complex128)
    a[..., :n] = x * chirp
    b = np.zeros(m, np.complex128)
    b[:n] = chirp.conj()
    b[m - n + 1 :] = chirp[:0:-1].conj()
    result: Array = _inverse(inner, _evaluate(inner, a) * _evaluate(inner, b))[..., :n] * chirp
    return result
