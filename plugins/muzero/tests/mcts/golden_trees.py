"""Write the trees that mctx grows on a small network: what tests hold the tree search of egrl to, node for node.

    python plugins/muzero/tests/mcts/golden_trees.py [--out plugins/muzero/tests/mcts/golden]

Needs mctx and JAX (extra `mctx`, or both alone: nothing of egrl is imported). Each case is one .npz file with the
network's weights, the roots, the noise and the tree; all is computed in float64, values are kept as float32.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np

os.environ.setdefault("JAX_PLATFORMS", "cpu")

CASES: dict[str, dict] = {
    "puct": {"policy": "puct", "batch": 4, "actions": 3, "simulations": 60},
    "puct-invalid": {"policy": "puct", "batch": 5, "actions": 6, "simulations": 40, "invalid": 0.5},
    "puct-endings": {"policy": "puct", "batch": 4, "actions": 4, "simulations": 60, "endings": True},
    "gumbel": {"policy": "gumbel", "batch": 4, "actions": 3, "simulations": 60, "considered": 16},
    "gumbel-few": {"policy": "gumbel", "batch": 3, "actions": 12, "simulations": 50, "considered": 5},
    "gumbel-invalid": {
        "policy": "gumbel",
        "batch": 6,
        "actions": 7,
        "simulations": 40,
        "considered": 6,
        "invalid": 0.6,
    },
    "gumbel-endings": {
        "policy": "gumbel",
        "batch": 4,
        "actions": 4,
        "simulations": 60,
        "considered": 4,
        "endings": True,
    },
}
WIDTH = 6
DIRICHLET = {"fraction": 0.25, "alpha": 0.3}


def weights_of(rng: np.random.Generator, actions: int) -> dict[str, np.ndarray]:
    """A network: next = tanh(h W + V[action] + b), and from the next state logits, value, reward, discount."""
    return {
        "hidden": rng.normal(0, 0.6, (WIDTH, WIDTH)),
        "taken": rng.normal(0, 0.8, (actions, WIDTH)),
        "bias": rng.normal(0, 0.2, WIDTH),
        "logits": rng.normal(0, 0.7, (WIDTH, actions)),
        "value": rng.normal(0, 0.5, WIDTH),
        "reward": rng.normal(0, 0.5, WIDTH),
        "discount": rng.normal(0, 1.0, WIDTH),
    }


def grown(case: dict, seed: int) -> dict[str, np.ndarray]:
    """The arrays of one case."""
    import jax
    import jax.numpy as jnp
    import mctx

    rng = np.random.default_rng(seed)
    batch, actions = case["batch"], case["actions"]
    weights = weights_of(rng, actions)
    state = rng.normal(0, 1, (batch, WIDTH))
    invalid = rng.random((batch, actions)) < case.get("invalid", 0.0)
    invalid[np.arange(batch), rng.integers(0, actions, batch)] = False
    endings = case.get("endings", False)

    def recurrent(params, _, action, embedding):
        h = jnp.tanh(embedding @ params["hidden"] + params["taken"][action] + params["bias"])
        raw = h @ params["discount"]
        discount = 0.9 + 0.1 * jax.nn.sigmoid(raw)
        discount = jnp.where(endings & (raw > 1.5), 0.0, discount)
        step = mctx.RecurrentFnOutput(
            reward=h @ params["reward"],
            discount=discount,
            prior_logits=h @ params["logits"],
            value=h @ params["value"],
        )
        return step, h

    params = {name: jnp.asarray(array) for name, array in weights.items()}
    root = mctx.RootFnOutput(
        prior_logits=jnp.asarray(state) @ params["logits"],
        value=jnp.asarray(state) @ params["value"],
        embedding=jnp.asarray(state),
    )
    key = jax.random.PRNGKey(seed)
    if case["policy"] == "puct":
        found = mctx.muzero_policy(
            params,
            key,
            root,
            recurrent,
            case["simulations"],
            invalid_actions=jnp.asarray(invalid),
            dirichlet_fraction=DIRICHLET["fraction"],
            dirichlet_alpha=DIRICHLET["alpha"],
        )
        own = jax.random.split(key, 3)[1]
        noise = jax.random.dirichlet(own, jnp.full([actions], DIRICHLET["alpha"]), (batch,))
    else:
        found = mctx.gumbel_muzero_policy(
            params,
            key,
            root,
            recurrent,
            case["simulations"],
            invalid_actions=jnp.asarray(invalid),
            max_num_considered_actions=case["considered"],
        )
        noise = found.search_tree.extra_data.root_gumbel
    tree = found.search_tree
    return {
        **{f"weights.{name}": array for name, array in weights.items()},
        "state": state,
        "legal": ~invalid,
        "noise": np.asarray(noise, np.float64),
        "endings": np.array(endings),
        "considered": np.array(case.get("considered", 0)),
        "child": np.asarray(tree.children_index, np.int16),
        "visits": np.asarray(tree.children_visits, np.int16),
        "node_visits": np.asarray(tree.node_visits, np.int16),
        "value": np.asarray(tree.node_values, np.float32),
        "reward": np.asarray(tree.children_rewards, np.float32),
        "discount": np.asarray(tree.children_discounts, np.float32),
        "weights": np.asarray(found.action_weights, np.float32),
        "action": np.asarray(found.action, np.int16),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("plugins/muzero/tests/mcts/golden"))
    folder: Path = parser.parse_args().out
    import jax

    jax.config.update("jax_enable_x64", True)
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (name, case) in enumerate(CASES.items()):
        np.savez_compressed(folder / f"{name}.npz", **grown(case, seed))
        print(f"{folder / name}.npz: {(folder / f'{name}.npz').stat().st_size} bytes")


if __name__ == "__main__":
    main()
