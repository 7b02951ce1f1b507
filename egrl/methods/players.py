"""Saved policies as players: what each kind of policy (`metadata["kind"]`) proposes for a problem, with no training.

A kind is a function `player(paths, stored)`. What that gives has `greedy(problem)`: int16 [S, N, H], the mapping that
each of S policies thinks best. Its module is imported when it is used.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from egrl.methods import policy_fit
from hwsim.problem import Mapping16, Problem
from workloads import plugins
from workloads.errors import InputError
from workloads.plugins import check_installed

if TYPE_CHECKING:
    from policies.store import StoredPolicy

KINDS = {
    "gnn": "egrl.methods.network_players:gnn_player",
    "graphsage": "egrl.methods.ppo.method:player",
    "ranker": "egrl.methods.network_players:ranker_player",
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
        """Of networks that are MODULE:NAME, those in `code` are imported: the user named them.

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
        module, _, name = KINDS[kind].partition(":")
        made: Callable[..., Any] = getattr(importlib.import_module(module), name)
        return made
    others = plugins.installed(KIND)
    if kind not in others:
        check_installed(KIND.word, kind, f"{where}: kind")
        raise InputError(f"{where}: kind: expected one of {', '.join([*KINDS, *others])}, found {kind!r}")
    found: Callable[..., Any] = plugins.find(KIND, kind).thing
    return found
