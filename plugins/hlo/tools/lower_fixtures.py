"""Lower small JAX functions to the HLO text that the importer's tests read (tests/texts/NAME.hlo).

pip install "./plugins/hlo[jax]"
python plugins/hlo/tools/lower_fixtures.py
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from lower_programs import FLAGS, plain

FOLDER = Path(__file__).resolve().parents[1] / "tests" / "texts"


def functions() -> dict:
    """By name: a function, the shapes of its arguments, and which of these are donated."""
    import jax
    import jax.numpy as jnp
    from jax import lax
    from programs.layers import Shape, conv, f32, i32, lstm_cell

    def loop(weights, x):
        """A recurrent layer as a loop, and its gradient: state in place, slices of x, stacked results."""

        def loss(weights):
            start = (jnp.zeros((4, 32)), jnp.zeros((4, 32)))

            def body(state, step):
                state = lstm_cell(weights, step, state)
                return state, state[0]

            return jnp.sum(lax.scan(body, start, x)[1] ** 2)

        return jax.value_and_grad(loss)(weights)

    def convolutions(weights, x):
        """Strided, dilated and depthwise convolutions, and their gradients."""

        class Given:
            def __init__(self, values):
                self.values = list(values)

            def __call__(self, *shape, dtype=None):
                return self.values.pop(0)

        def loss(weights):
            p = Given(weights)
            y = conv(p, x, 8, 3, 2)
            y = conv(p, jnp.tanh(y), 8, 3, 2, groups=8)
            y = lax.conv_general_dilated(
                y,
                p(),
                (1, 1),
                [(2, 2), (2, 2)],
                rhs_dilation=(2, 2),
                dimension_numbers=("NHWC", "HWIO", "NHWC"),
            )
            return jnp.sum(jnp.tanh(y))

        return jax.grad(loss)(weights)

    def decode(cache, table, token, at):
        """A cache that is donated and updated in place, and rows of a table."""
        row = table[token]
        cache = lax.dynamic_update_slice(cache, row[:, None], (0, at, 0))
        return cache, jnp.einsum("btd,bd->bt", cache, row)

    def mixture(x, y, ids, pick):
        """Branches, a sort, a transform, sums by segment, several element types."""
        chosen = lax.cond(pick > 0, lambda a: jnp.tanh(a @ a.T), lambda a: a @ a.T + 1.0, x)
        ordered, order = lax.sort_key_val(y, jnp.arange(y.shape[0]))
        waves = jnp.abs(jnp.fft.fft(ordered.astype(jnp.complex64)))
        sums = jnp.zeros((16,), jnp.float32).at[ids].add(waves[: ids.shape[0]])
        narrow = (x.astype(jnp.bfloat16) @ x.T.astype(jnp.bfloat16)) > 0
        return chosen, sums, order.astype(jnp.int8), narrow

    lstm = (f32(16, 128), f32(32, 128), f32(128))
    kernels = (f32(3, 3, 3, 8), f32(3, 3, 1, 8), f32(3, 3, 8, 4))
    return {
        "loop": (loop, (lstm, f32(10, 4, 16)), ()),
        "convolutions": (convolutions, (kernels, f32(2, 17, 17, 3)), ()),
        "decode": (decode, (f32(4, 64, 32), f32(1000, 32), i32(4), i32()), (0,)),
        "mixture": (mixture, (f32(64, 64), f32(256), i32(100), Shape((), jnp.int32)), ()),
    }


def main() -> int:
    os.environ["XLA_FLAGS"] = " ".join(FLAGS)
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax

    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, (function, shapes, donated) in functions().items():
        text = jax.jit(function, donate_argnums=donated).lower(*shapes).compile().as_text()
        Path(FOLDER / f"{name}.hlo").write_text(plain(text))
        print(f"{name}: {len(plain(text))} characters")
    return 0


if __name__ == "__main__":
    sys.exit(main())
