"""How programs that JAX compiles compare with XLA's own analysis of their cost.

    pip install "./plugins/hlo[jax]"
    python plugins/hlo/benchmarks/hlo_costs.py [NAME …]

compiles small jitted functions for a CPU and prints a Markdown table: operations as `egrl import` counts them in the
scheduled HLO text beside the `flops` of XLA's `cost_analysis`, and bytes beside its `bytes accessed`. Nothing is run.

XLA counts the body of a loop once, whatever its trips: a program with a loop is compiled once more with the loop
written out, and XLA's numbers are those of that. It counts a transcendental function apart, and not as an operation;
here it is one operation an element, so XLA's are added. A library call that neither knows is refused here.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
from jax import lax

from egrl_hlo import of_text
from workloads.errors import InputError
from workloads.load import describe

Arrays = tuple[jax.ShapeDtypeStruct, ...]
Build = Callable[[bool], tuple[Callable[..., Any], Arrays]]
"""A function and what it takes; its loops written out where the argument says so."""


def array(*shape: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def mlp(x: Any, a: Any, b: Any) -> Any:
    return jax.nn.relu(x @ a) @ b


def attention(q: Any, k: Any, v: Any) -> Any:
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)


def convolution(x: Any, w: Any, stride: int = 1, groups: int = 1) -> Any:
    numbers = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(
        x, w, (stride, stride), "SAME", dimension_numbers=numbers, feature_group_count=groups
    )


def normalised(x: Any, gain: Any) -> Any:
    x = x - x.mean(-1, keepdims=True)
    return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * gain


def pooled(x: Any) -> Any:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def recurrent(written_out: bool) -> tuple[Callable[..., Any], Arrays]:
    def run(x: Any, w: Any, u: Any) -> Any:
        def step(h: Any, row: Any) -> tuple[Any, Any]:
            h = jnp.tanh(row @ w + h @ u)
            return h, h

        return lax.scan(step, jnp.zeros_like(x[0]), x, unroll=len(x) if written_out else 1)[1]

    return run, (array(12, 4, 64), array(64, 64), array(64, 64))


def powers(written_out: bool) -> tuple[Callable[..., Any], Arrays]:
    def run(x: Any, w: Any) -> Any:
        return lax.fori_loop(0, 8, lambda _, y: y @ w, x, unroll=8 if written_out else 1)

    return run, (array(16, 64), array(64, 64))


def fixed(function: Callable[..., Any], *given: jax.ShapeDtypeStruct) -> Build:
    """A program without a loop."""
    return lambda _: (function, given)


PROGRAMS: dict[str, Build] = {
    "mlp": fixed(mlp, array(32, 256), array(256, 512), array(512, 64)),
    "mlp in bfloat16": fixed(
        mlp, *(array(*shape, dtype=jnp.bfloat16) for shape in ((32, 256), (256, 512), (512, 64)))
    ),
    "mlp's gradients": fixed(
        jax.grad(lambda a, b, x: (mlp(x, a, b) ** 2).sum(), argnums=(0, 1)),
        *(array(256, 512), array(512, 64), array(32, 256)),
    ),
    "attention": fixed(attention, *(array(2, 64, 4, 32) for _ in range(3))),
    "attention's gradient": fixed(
        jax.grad(lambda q, k, v: attention(q, k, v).sum()), *(array(2, 64, 4, 32) for _ in range(3))
    ),
    "layer norm": fixed(normalised, array(64, 256), array(256)),
    "convolution": fixed(convolution, array(2, 32, 32, 16), array(3, 3, 16, 32)),
    "strided convolution": fixed(
        lambda x, w: convolution(x, w, 2), array(2, 32, 32, 16), array(3, 3, 16, 32)
    ),
    "depthwise convolution": fixed(
        lambda x, w: convolution(x, w, groups=16), array(2, 32, 32, 16), array(3, 3, 1, 16)
    ),
    "convolution's gradient": fixed(
        jax.grad(lambda w, x: convolution(x, w).sum()), array(3, 3, 16, 32), array(2, 32, 32, 16)
    ),
    "max pooling": fixed(pooled, array(2, 32, 32, 16)),
    "sums": fixed(lambda x: (x.sum(0), x.max(1)), array(256, 128)),
    "integers": fixed(
        lambda x, w: lax.dot(x, w, preferred_element_type=jnp.int32),
        *(array(64, 128, dtype=jnp.int8), array(128, 32, dtype=jnp.int8)),
    ),
    "look-up": fixed(lambda table, ids: table[ids] * 2.0, array(1000, 64), array(32, dtype=jnp.int32)),
    "rows added": fixed(
        lambda x, ids, rows: x.at[ids].add(rows),
        *(array(100, 64), array(16, dtype=jnp.int32), array(16, 64)),
    ),
    "running sum": fixed(lambda x: jnp.cumsum(x, 1), array(64, 128)),
    "sort": fixed(lambda x: jnp.sort(x, 1), array(64, 128)),
    "Fourier transform": fixed(lambda x: jnp.fft.fft(x), array(16, 256, dtype=jnp.complex64)),
    "triangular solve": fixed(
        lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True),
        array(64, 64),
        array(64, 8),
    ),
    "recurrent (scan)": recurrent,
    "powers (loop)": powers,
}


def compiled(build: Build, written_out: bool) -> Any:
    """The executable of a program."""
    function, given = build(written_out)
    return jax.jit(function).lower(*given).compile()


def row(name: str) -> tuple[str, ...]:
    """A line of the table."""
    text = compiled(PROGRAMS[name], False).as_text()
    try:
        sizes = describe(of_text(text, "program", name, name))
    except InputError:
        return name, *["", "refused", ""] * 2
    analysis = compiled(PROGRAMS[name], True).cost_analysis()
    flops = analysis.get("flops", 0.0) + analysis.get("transcendentals", 0.0)
    moved = analysis.get("bytes accessed", 0.0)
    return (
        name,
        f"{flops:,.0f}",
        f"{sizes['flops']:,}",
        f"{sizes['flops'] / flops:.3f}" if flops > 0 else "-",
        f"{moved:,.0f}",
        f"{sizes['bytes']:,}",
        f"{sizes['bytes'] / moved:.3f}" if moved > 0 else "-",
    )


def main(argv: Sequence[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PROGRAMS)}")
    given = parser.parse_args(argv)
    print(
        "| program | operations, XLA | here | ratio | bytes, XLA | here | ratio |\n|---|---|---|---|---|---|---|"
    )
    for name in given.names or PROGRAMS:
        print(f"| {' | '.join(row(name))} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
