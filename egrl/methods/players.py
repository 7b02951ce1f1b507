"""Saved policies as players: what each kind of policy (`metadata["kind"]`) proposes for a problem, with no training.

A kind is a function `player(paths, stored)`. What that gives has `greedy(problem)`: int16 [S, N, H], the mapping that
each of S policies thinks best. Those of networks over graphs and of ranking networks are here; others are imported when
they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from egrl.methods import policy_fit
from hwsim.capabilities import HasPlacer
from hwsim.problem import Mapping16, Problem
from policies.ranker import Rankers
from policies.weight_vector import Weights
from workloads import plugins
from workloads.errors import InputError
from workloads.plugins import check_installed

if TYPE_CHECKING:
    from policies.stacked import StackedActor
    from policies.store import StoredPolicy


def gnn_player(paths: Sequence[Path], stored: Sequence[StoredPolicy]) -> GnnPlayer:
    """InputError where the weights of one are not those of its network, or of another number than the first's."""
    from policies.stacked import StackedActor
    from policies.store import config_of, flat_weights

    meta = stored[0].metadata
    rows = [flat_weights(policy, str(path)) for path, policy in zip(paths, stored, strict=True)]
    wrong = next((k for k, row in enumerate(rows) if len(row) != len(rows[0])), None)
    if wrong is not None:
        raise InputError(
            f"{paths[wrong]}: expected {len(rows[0])} weights as {paths[0]} has, found {len(rows[wrong])}"
        )
    network = config_of(stored[0], str(paths[0]))
    return GnnPlayer(
        StackedActor(network, meta["features"], len(meta["heads"]), meta["choices"]), np.stack(rows)
    )


class GnnPlayer:
    """S graph networks, all evaluated at once; weights float32 [S, P]."""

    def __init__(self, actor: StackedActor, weights: Weights) -> None:
        self._actor, self._weights = actor, weights

    def greedy(self, problem: Problem) -> Mapping16:
        """int16 [S, N, H]."""
        import torch

        from policies.graph import prepare

        torch.set_num_threads(1)  # graphs are small: more threads wait for one another
        seen = policy_fit.observation(problem)
        graph = prepare(seen.edge_index, len(seen.x))
        odds = self._actor.probabilities(self._weights, seen.x, graph, problem.space.num_choices)
        return np.where(problem.space.live, odds.argmax(axis=-1), -1).astype(np.int16)


def ranker_player(paths: Sequence[Path], stored: Sequence[StoredPolicy]) -> RankerPlayer:
    """InputError if the weights of one are not those of its network."""
    from policies.store import ranker_weights, rankers_of

    rankers = rankers_of(stored[0], str(paths[0]))
    rows = [ranker_weights(policy, rankers, str(path)) for path, policy in zip(paths, stored, strict=True)]
    return RankerPlayer(rankers, np.stack(rows))


class RankerPlayer:
    """S ranking networks, all evaluated at once; weights float32 [S, P]."""

    def __init__(self, rankers: Rankers, weights: Weights) -> None:
        self._rankers, self._weights = rankers, weights

    def greedy(self, problem: Problem) -> Mapping16:
        """int16 [S, N, H]."""
        assert isinstance(problem, HasPlacer)
        scores, share = self._rankers.scores(
            self._weights, policy_fit.places_for(problem, self._rankers.names)
        )
        return problem.placer.place(scores, share)


def graphsage_player(paths: Sequence[Path], stored: Sequence[StoredPolicy]) -> Any:
    """The networks of `egrl.methods.ppo`."""
    from egrl.methods.ppo.method import player

    return player(paths, stored)


KINDS: dict[str, Callable[..., Any]] = {
    "gnn": gnn_player,
    "graphsage": graphsage_player,
    "ranker": ranker_player,
}
"""Kind of policy -> its player."""
KIND = plugins.Kind("player", "kind", tuple(KINDS), "a function of paths and of the policies that lie there")
"""What plug-ins of the group `egrl.players` are: a kind of policy each, by its name."""


class Policies:
    """S policies of one kind, read from disk.

    Attributes:
        paths: where each lies.
        stored: what lay there.
    """

    def __init__(self, paths: Sequence[Path], code: Sequence[str] = ()) -> None:
        """Networks that are MODULE:NAME are imported only if they are in `code`: the user named them.

        Raises InputError where one is damaged, of a kind that proposes nothing, otherwise than the first, or code that
        was not named.
        """
        from policies.store import foreign_network, load_policy

        self.paths = tuple(paths)
        self.stored: tuple[StoredPolicy, ...] = tuple(load_policy(path) for path in self.paths)
        kind = self.stored[0].metadata["kind"]
        make = _player_of(kind, str(self.paths[0]))
        for path, policy in zip(self.paths, self.stored, strict=True):
            for key in ("kind", "config"):
                found, first = policy.metadata[key], self.stored[0].metadata[key]
                if found != first:
                    raise InputError(f"{path}: {key}: expected that of {self.paths[0]}, found {found!r}")
        network = foreign_network(self.stored[0])
        if network is not None and network not in code:
            raise InputError(
                f"{self.paths[0]}: expected --set method.network={network}, which was not given: code in a file is"
                " imported only if you name it"
            )
        self._greedy: Callable[[Problem], Mapping16] = make(self.paths, self.stored).greedy

    def greedy(self, problem: Problem) -> Mapping16:
        """int16 [S, N, H], the mapping that each policy thinks best. InputError where one does not fit the problem."""
        for path, policy in zip(self.paths, self.stored, strict=True):
            policy_fit.check(policy, problem, str(path))
        return self._greedy(problem)


def _player_of(kind: str, where: str) -> Callable[..., Any]:
    """What makes players of policies of a kind. InputError, beginning with `where`, if none is known."""
    if kind in KINDS:
        return KINDS[kind]
    others = plugins.installed(KIND)
    if kind not in others:
        check_installed(KIND.word, kind, f"{where}: kind")
        raise InputError(f"{where}: kind: expected one of {', '.join([*KINDS, *others])}, found {kind!r}")
    found: Callable[..., Any] = plugins.find(KIND, kind).thing
    return found
