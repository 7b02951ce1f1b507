"""Which games, networks and saved policies fit an agent, and each other."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from egrl.core import typed_tables
from egrl_muzero.config import PlayConfig
from egrl_muzero.mmap.observer import SeenGame
from egrl_muzero.networks import MuZeroNet, Shapes
from egrl_muzero.table import Seen
from hwsim.mmap.game import MmapGame
from hwsim.problem import Problem
from hwsim.stepwise import Game, HasGame
from policies.store import StoredPolicy, vector_of
from policies.weight_vector import Weights, flatten, weight_format_of
from workloads.errors import InputError

KIND = "muzero"
SEARCH = (
    "simulations",
    "search",
    "dynamics",
    "ablation",
    "value_scale",
    "maxvisit_init",
    "least_span",
)
"""Settings that a policy is kept with, so that it is placed elsewhere as it was trained."""

PROGRESS = "progress"


def shapes(seen: Seen, game: Game) -> Shapes:
    """How the networks read what is seen of a game, arrays [B, …]: an image, rows, names; all else as numbers."""
    called = game.arrays
    flat = {
        name: int(np.prod(array.shape[1:], dtype=np.int64))
        for name, array in seen.items()
        if name not in (*called, PROGRESS)
    }
    height, width = seen[called.image].shape[1:] if called.image in seen else (0, 0)
    rows, columns = seen[called.rows].shape[1:] if called.rows in seen else (0, 0)
    names = seen[called.names].shape[2] if called.names in seen else 0
    return Shapes((height, width), (rows, columns), names, flat, game.num_actions, called)


def game_of(problem: Problem, config: PlayConfig) -> Game:
    """The game of a problem, seen as the settings say."""
    assert isinstance(problem, HasGame)
    game = problem.game
    return SeenGame(game, config.view) if isinstance(game, MmapGame) else game.seen_by(config.view)


def demands(config: PlayConfig, game: Game) -> dict[str, Any]:
    """The metadata that a policy must have in addition to what problems ask for."""
    return {
        "view_schema": game.view_schema,
        "config": {"network": asdict(config.network), "view": asdict(config.view)},
    }


def check_names(policy: StoredPolicy, problem: Problem, ids: int, where: str) -> None:
    """InputError naming `where` where a policy knows the tensors of another program by their numbers."""
    own = policy.metadata.get("workload")
    if ids and own != problem.about.workload:
        raise InputError(
            f"{where}: network.ids: expected 0, found {ids}: this agent knows the tensors of {own} by their numbers;"
            f" one for {problem.about.workload} is trained with --set method.network.ids=0"
        )


def weights_of(policy: StoredPolicy, net: MuZeroNet, config: PlayConfig, game: Game, where: str) -> Weights:
    """The weights float32 [P] of a saved policy. InputError naming `where` where it does not fit the settings."""
    if policy.metadata["kind"] != KIND:
        raise InputError(f"{where}: kind: expected {KIND!r}, found {policy.metadata['kind']!r}")
    expected = demands(config, game)
    schema = policy.metadata.get("view_schema")
    if schema != expected["view_schema"]:
        raise InputError(
            f"{where}: view_schema: expected {expected['view_schema']}, which this version shows of a game,"
            f" found {schema}"
        )
    wanted, found = (
        typed_tables.dotted_keys(expected["config"]),
        typed_tables.dotted_keys(policy.metadata["config"]),
    )
    if missing := sorted({*wanted} ^ {*found}):
        raise InputError(
            f"{where}: {missing[0]}: expected the settings of this version, found those of another"
        )
    for key in sorted(wanted):
        if wanted[key] != found[key]:
            raise InputError(
                f"{where}: {key}: expected {wanted[key]!r} as method.{key} has it, found {found[key]!r};"
                f" --set method.{key}={found[key]} goes on from it"
            )
    return vector_of(policy, weight_format_of(net.named_parameters()), where)


def policy_of(
    net: MuZeroNet, config: PlayConfig, game: Game, discount: float, metadata: dict[str, Any]
) -> StoredPolicy:
    """Networks as they are kept, with their settings, those of their search, and other `metadata`."""
    arrays = weight_format_of(net.named_parameters()).arrays(flatten(net))
    search = {name: getattr(config, name) for name in SEARCH}
    search["discount"] = {"first": discount, "last": discount}
    return StoredPolicy(arrays, {"kind": KIND, **metadata, **demands(config, game), "search": search})
