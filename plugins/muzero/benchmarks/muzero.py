"""How fast an agent plans and plays: simulations a second in its learned model, and whole games a minute.

    python plugins/muzero/benchmarks/muzero.py [--program alexnet_train_batch_32] [--threads 2] [--repeat 15]
        [--seconds 30] [--set KEY=VALUE …]

First table: searches with the agent's own networks (`--set network.width=…` and so on as of method `muzero`), and mctx
(extra of that name) beside it with the same dynamics and heads in JAX, on as many threads as XLA takes; the
contenders take turns, medians. A simulation is one a game. Second table: an agent at work, and where its time goes when
it plays and learns in turn on one thread.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch

from egrl.core import typed_tables
from egrl.core.archive import Archive
from egrl.core.method import Context
from egrl_muzero.agent import Agent
from egrl_muzero.config import PlayConfig
from egrl_muzero.mcts import Gumbel, search
from egrl_muzero.method import DEFINITION, game_of
from egrl_muzero.model import LearnedModel
from hwsim.mmap.chip import load_chip
from hwsim.mmap.problem import MmapProblem
from workloads.load import load_program


def agent_of(problem: MmapProblem, settings: PlayConfig, threads: int) -> Agent:
    """A new agent for one program."""
    context = Context([problem], Archive([problem]), 0, [None], None, threads)
    return Agent([game_of(problem, settings)], settings, context)


def our_run(agent: Agent, settings: PlayConfig) -> Callable[[], object]:
    """A search of all slots in the learned model, the encoding of what is seen not counted."""
    model = LearnedModel(agent.net, agent.potential)
    root = model.root(agent.table.observe(), agent.table.legal(), agent.table.place())
    keys = np.arange(settings.slots, dtype=np.uint64)
    return lambda: search(root, model.recurrent, settings.simulations, Gumbel(), keys)


def mctx_run(agent: Agent, settings: PlayConfig) -> Callable[[], object]:
    """The same dynamics and heads in JAX, searched by mctx."""
    import jax
    import jax.numpy as jnp
    import mctx

    weights = {name: jnp.asarray(p.detach().numpy()) for name, p in agent.net.named_parameters()}
    actions, bins = agent.net.shapes.actions, settings.network.bins
    points = jnp.asarray(agent.net.support.points.numpy())

    def norm(x: Any, params: Any, name: str) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
        return scaled * params[f"{name}.weight"] + params[f"{name}.bias"]

    def linear(x: Any, params: Any, name: str) -> Any:
        return x @ params[f"{name}.weight"].T + params[f"{name}.bias"]

    def read(params: Any, embedding: Any) -> tuple[Any, Any]:
        out = linear(jax.nn.relu(linear(embedding, params, "head")), params, "heads")
        mean = jax.nn.softmax(out[:, actions:].reshape(-1, 2, bins)) @ points
        root = (jnp.sqrt(1 + 0.004 * (jnp.abs(mean) + 1.001)) - 1) / 0.002
        return out[:, :actions], jnp.sign(mean) * (root**2 - 1)

    def recurrent(params: Any, _: Any, action: Any, embedding: Any) -> Any:
        hidden = jax.nn.relu(linear(embedding, params, "act") + params["action.weight"][action])
        after = norm(embedding + linear(hidden, params, "after"), params, "after_norm")
        logits, scalars = read(params, after)
        discount = jnp.full(len(action), settings.discount.last)
        return mctx.RecurrentFnOutput(
            reward=scalars[:, 1], discount=discount, prior_logits=logits, value=scalars[:, 0]
        ), after

    @jax.jit
    def run(params: Any, start: Any) -> Any:
        logits, scalars = read(params, start)
        root = mctx.RootFnOutput(prior_logits=logits, value=scalars[:, 0], embedding=start)
        key = jax.random.PRNGKey(0)
        return mctx.gumbel_muzero_policy(params, key, root, recurrent, settings.simulations).action

    start = jnp.asarray(
        np.random.default_rng(0).normal(size=(settings.slots, settings.network.width)), jnp.float32
    )
    return lambda: jax.block_until_ready(run(weights, start))


def medians(runs: dict[str, Callable[[], object]], repeat: int) -> dict[str, float]:
    """Median seconds of each, taking turns, after a first turn that does not count."""
    took = defaultdict(list)
    for _ in range(repeat + 1):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            took[name].append(time.perf_counter() - start)
    return {name: float(np.median(seconds[1:])) for name, seconds in took.items()}


class Clocks:
    """Seconds by label; what is clocked within something clocked counts for the outer one alone."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._running = False

    def watch(self, owner: Any, name: str, label: str) -> None:
        """Let a method of an object add its seconds."""
        inner = getattr(owner, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            if self._running:
                return inner(*args, **kwargs)
            self._running, start = True, time.perf_counter()
            try:
                return inner(*args, **kwargs)
            finally:
                self._running = False
                self.seconds[label] += time.perf_counter() - start

        setattr(owner, name, timed)


def games(agent: Agent, settings: PlayConfig, seconds: float) -> float:
    """Games a minute."""
    agent.work()
    moves, start = agent.table.time, time.perf_counter()
    while time.perf_counter() - start < seconds:
        agent.work()
    played = (agent.table.time - moves) * settings.slots / agent.table.unit[0]
    return float(60 * played / (time.perf_counter() - start))


def shares(agent: Agent, seconds: float) -> dict[str, float]:
    """The share of the time that each part takes, on one thread."""
    agent.work()
    clocks = Clocks()
    for name in ("observe", "legal", "place", "move"):
        clocks.watch(agent.table, name, "game")
    clocks.watch(agent.chooser._model, "root", "encoding")
    clocks.watch(agent.chooser, "_search", "search")
    clocks.watch(agent.reviser, "work", "revisions")
    clocks.watch(agent.trainer, "reanalyse", "reanalyse")
    clocks.watch(agent.trainer, "train", "gradient steps")
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        agent.work()
    took = time.perf_counter() - start
    return {name: part / took for name, part in clocks.seconds.items()}


def main() -> None:
    """Print two Markdown tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--program", nargs="+", default=["alexnet_train_batch_32"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--set", dest="settings", action="extend", nargs="*", default=[], metavar="KEY=VALUE")
    given = parser.parse_args()
    settings: PlayConfig = typed_tables.build(
        DEFINITION.config,
        typed_tables.parse_set(["method." + pair for pair in given.settings])["method"],
        "--set",
    )
    torch.set_num_threads(given.threads)
    print("| games | simulations | contender | simulations a second |\n|---:|---:|---|---:|")
    problem = MmapProblem(load_program(given.program[0]), load_chip("tpuv4i"))
    agent = agent_of(problem, settings, given.threads)
    runs = {"egrl": our_run(agent, settings)}
    if find_spec("mctx"):
        runs["mctx"] = mctx_run(agent, settings)
    for name, seconds in medians(runs, given.repeat).items():
        rate = settings.slots * settings.simulations / seconds
        print(f"| {settings.slots} | {settings.simulations} | {name} | {rate:,.0f} |", flush=True)
    print("\n| program | decisions | games a minute | where the time goes |\n|---|---:|---:|---|")
    for name in given.program:
        problem = MmapProblem(load_program(name), load_chip("tpuv4i"))
        rate = games(agent_of(problem, settings, given.threads), settings, given.seconds)
        agent = agent_of(problem, settings, 1)
        parts = shares(agent, given.seconds)
        text = ", ".join(f"{part} {share:.0%}" for part, share in parts.items())
        print(f"| `{name}` | {agent.table.unit[0]:,.0f} | {rate:,.0f} | {text} |", flush=True)


if __name__ == "__main__":
    main()
