"""How many simulations a second the tree search makes with a small network, and mctx beside it where it is installed.

    python plugins/muzero/benchmarks/mcts.py [--batch 32] [--actions 3] [--width 64] [--simulations 32 50 400]
        [--repeat 7] [--threads 1]

The network is toy dynamics: next state = tanh(W [state, action]), and logits, value and reward from it; the same
weights for all. "numpy" and "torch" are egrl's search with float32 networks of either, "mctx" (extra of that name) the
same search in JAX, compiled before it is timed, with as many threads as it likes. A simulation is one per game: batch *
simulations / median seconds of a whole search, the choice of actions included. The last column
is the share of that which passes in the network. The contenders take turns.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egrl_muzero.mcts import Gumbel, Policy, Puct, Recurrent, Root, Step, search

Weights = dict[str, NDArray[np.float32]]
Run = Callable[[], object]


def weights_of(width: int, actions: int) -> Weights:
    """Matrices of the network: state and one-hot action to the next state, and that to logits, value and reward."""
    rng = np.random.default_rng(0)
    shapes = {"state": (width, width), "action": (actions, width), "heads": (width, actions + 2)}
    return {n: (rng.normal(0, 1.0 / np.sqrt(s[0]), s)).astype(np.float32) for n, s in shapes.items()}


class Clock:
    """A network that knows how long it took."""

    def __init__(self, recurrent: Recurrent) -> None:
        self.recurrent, self.seconds = recurrent, 0.0

    def __call__(self, state: Any, action: NDArray[np.int64]) -> Step:
        start = time.perf_counter()
        step = self.recurrent(state, action)
        self.seconds += time.perf_counter() - start
        return step


def numpy_network(weights: Weights, state: NDArray[np.float32]) -> tuple[Root, Recurrent]:
    """The network in numpy."""
    actions = len(weights["action"])

    def recurrent(embedding: NDArray[np.float32], action: NDArray[np.int64]) -> Step:
        after = np.tanh(embedding @ weights["state"] + weights["action"][action])
        out = after @ weights["heads"]
        ones = np.ones(len(action))
        return Step(out[:, -1], ones, out[:, :actions], out[:, -2], after)

    out = state @ weights["heads"]
    return Root(out[:, :actions], out[:, -2], state), recurrent


def torch_network(weights: Weights, state: NDArray[np.float32]) -> tuple[Root, Recurrent]:
    """The network in torch."""
    import torch

    layers = {name: torch.from_numpy(array) for name, array in weights.items()}
    actions = len(weights["action"])

    def recurrent(embedding: torch.Tensor, action: NDArray[np.int64]) -> Step:
        with torch.inference_mode():
            taken = layers["action"][torch.from_numpy(action)]
            after = torch.tanh(torch.addmm(taken, embedding, layers["state"]))
            out = after @ layers["heads"]
        return Step(out[:, -1], np.ones(len(action)), out[:, :actions], out[:, -2], after)

    start = torch.from_numpy(state)
    out = start @ layers["heads"]
    return Root(out[:, :actions], out[:, -2], start), recurrent


def mctx_run(weights: Weights, state: NDArray[np.float32], simulations: int, gumbel: bool) -> Run:
    """A compiled search of mctx."""
    import jax
    import jax.numpy as jnp
    import mctx

    actions = len(weights["action"])
    policy = mctx.gumbel_muzero_policy if gumbel else mctx.muzero_policy

    def recurrent(params: Any, _: Any, action: Any, embedding: Any) -> Any:
        after = jnp.tanh(embedding @ params["state"] + params["action"][action])
        out = after @ params["heads"]
        step = mctx.RecurrentFnOutput(
            reward=out[:, -1],
            discount=jnp.ones(len(action)),
            prior_logits=out[:, :actions],
            value=out[:, -2],
        )
        return step, after

    @jax.jit
    def run(params: Any, start: Any) -> Any:
        out = start @ params["heads"]
        root = mctx.RootFnOutput(prior_logits=out[:, :actions], value=out[:, -2], embedding=start)
        found = policy(params, jax.random.PRNGKey(0), root, recurrent, simulations)
        return found.action, found.action_weights

    params = {name: jnp.asarray(array) for name, array in weights.items()}
    return lambda: jax.block_until_ready(run(params, jnp.asarray(state)))


def timed(runs: dict[str, Run], clocks: dict[str, Clock], repeat: int) -> dict[str, tuple[float, float]]:
    """Median seconds of each and the median share of its clock, the runs taking turns after one that does not count."""
    took: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for _ in range(repeat + 1):
        for name, run in runs.items():
            clock = clocks.get(name)
            before = clock.seconds if clock else 0.0
            start = time.perf_counter()
            run()
            seconds = time.perf_counter() - start
            took[name].append((seconds, (clock.seconds - before) / seconds if clock else np.nan))
    middles = {name: np.median(rows[1:], axis=0).tolist() for name, rows in took.items()}
    return {name: (seconds, share) for name, (seconds, share) in middles.items()}


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--actions", type=int, default=3)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--simulations", type=int, nargs="+", default=[32, 50, 400])
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    weights = weights_of(given.width, given.actions)
    state = np.random.default_rng(1).normal(0, 1, (given.batch, given.width)).astype(np.float32)
    networks = {"numpy": numpy_network}
    if find_spec("torch"):
        import torch

        torch.set_num_threads(given.threads)
        networks["torch"] = torch_network
    print("| policy | simulations | network | simulations a second | in the network |")
    print("|---|---:|---|---:|---:|")
    for policy in (Gumbel(), Puct()):
        for simulations in given.simulations:
            measure(policy, simulations, networks, weights, state, given.repeat)


def measure(
    policy: Policy,
    simulations: int,
    networks: dict[str, Any],
    weights: Weights,
    state: NDArray[np.float32],
    repeat: int,
) -> None:
    """Print the rows of one policy and number of simulations."""
    keys = np.arange(len(state), dtype=np.uint64)
    runs: dict[str, Run] = {}
    clocks: dict[str, Clock] = {}
    for name, network in networks.items():
        root, recurrent = network(weights, state)
        clocks[name] = Clock(recurrent)
        runs[name] = lambda root=root, clock=clocks[name]: search(root, clock, simulations, policy, keys)
    if find_spec("mctx"):
        runs["mctx"] = mctx_run(weights, state, simulations, isinstance(policy, Gumbel))
    for name, (seconds, inside) in timed(runs, clocks, repeat).items():
        share = "" if np.isnan(inside) else f"{inside:.0%}"
        rate = len(state) * simulations / seconds
        print(f"| {type(policy).__name__} | {simulations} | {name} | {rate:,.0f} | {share} |", flush=True)


if __name__ == "__main__":
    main()
