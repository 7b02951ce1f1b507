"""Saved policies as players: what each kind of policy (`metadata["kind"]`) proposes for a problem, with no training.

A kind is a function `player(paths, stored)`. What that gives has `greedy(problem)`: int16 [S, N, H], the mapping that
each of S policies thinks best. Its module is imported when it is used.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from egrl.core import plugins
from egrl.core.loop import rules_of
from egrl.core.plugins import check_installed
from egrl.methods import policy_fit
from hwsim.capabilities import HasPlacer
from hwsim.placing import Scores
from hwsim.problem import Mapping16, Problem
from policies.network import LINEAR, NetworkConfig
from policies.ranker import Rankers
from policies.shipped import network, rules
from policies.weight_vector import Weights
from workloads.errors import InputError

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


@dataclass(frozen=True)
class Placed:
    """A mapping int16 [N, H] that was placed at once.

    Attributes:
        mapping: valid.
        source: what ranked the tensors: "the network", "rule 3", "the policy" or, if no ranking was better, "baseline".
        candidates: how many mappings were made.
        speedup: over the baseline, by the problem's model; None if no model was asked.
    """

    mapping: Mapping16
    source: str
    candidates: int
    speedup: float | None


SAMPLES, SIGMA = 16, 0.3
"""Mappings that a shipped network proposes: its own, and others placed with noise of so much on scores of size 1."""


def placed_by_rules(problem: Problem) -> Mapping16:
    """What the shipped rules place, int16 [K, N, H], the best alone first; K = 0 if none ship for the problem."""
    found: list[Weights] = []
    if isinstance(problem, HasPlacer):
        found = rules(problem.placer.feature_names, len(problem.space.heads))
    if not isinstance(problem, HasPlacer) or not found:
        return np.empty((0, *problem.space.shape), np.int16)
    rankers = Rankers(NetworkConfig(name=LINEAR), problem.placer.feature_names, len(problem.space.heads))
    return problem.placer.place(*rankers.scores(np.stack(found), policy_fit.places_of(problem), None))


def with_noise(scores: Scores, samples: int = SAMPLES) -> Scores:
    """Scores float32 [S, T, L]: those given, [1, T, L], then the same with noise, which is always the same."""
    found, rng = np.repeat(scores, samples, axis=0), np.random.default_rng(0)
    found[1:, :, 1:] += SIGMA * rng.standard_normal(found[1:, :, 1:].shape, dtype=np.float32)
    return found


def placed_by_network(problem: Problem, samples: int = SAMPLES) -> Mapping16:
    """What the shipped network places, int16 [K, N, H], its own mapping first; K = 0 if none ships for the problem."""
    found = None
    if isinstance(problem, HasPlacer):
        found = network(problem.placer.feature_names, len(problem.space.heads))
    if not isinstance(problem, HasPlacer) or found is None or samples < 1:
        return np.empty((0, *problem.space.shape), np.int16)
    scores, share = found.rankers.scores(found.weights[None], policy_fit.places_of(problem), None)
    return problem.placer.place(with_noise(scores, samples), np.repeat(share, samples))


def shipped_mappings(problem: Problem, where: str = "place") -> tuple[Mapping16, list[str]]:
    """The mappings of the shipped network, then those of the rules, and what made each.

    InputError that begins with `where` if nothing ships for the problem.
    """
    networks, of_rules = placed_by_network(problem), placed_by_rules(problem)
    sources = ["the network", *(f"sample {k} of the network" for k in range(1, SAMPLES))][: len(networks)]
    sources += [f"rule {k}" for k in range(1, len(of_rules) + 1)]
    made = np.concatenate([networks, of_rules])
    if not len(made):
        what = "that rules ship for" if isinstance(problem, HasPlacer) else "that places tensors by rank"
        raise InputError(f"{where}: expected a problem {what}, such as nnpi, found {problem.about.name}")
    return made, sources


OF_RULES, OF_SHIPPED = 4, 8
"""Of `--start rules`: mappings of the problem's own rules, and of shipped rankings, where some ship."""


def first_mappings(problem: Problem) -> list[Mapping16]:
    """What `--start rules` measures first, int16 [N, H] each: the baseline and the rules that the problem knows.

    Where rankings ship for it, these are its four best rules and the eight best of what the rankings place, by the
    problem's own model. InputError if the problem knows no rules.
    """
    baseline, *of_rules = rules_of(problem)
    made = np.concatenate([placed_by_network(problem), placed_by_rules(problem)])
    if not len(made):
        return [baseline, *of_rules]
    chosen = [baseline]
    for mappings, count in ((np.stack([baseline, *of_rules]), OF_RULES), (made, OF_SHIPPED)):
        cost = problem.evaluate(mappings, np.zeros(len(mappings), np.uint64)).cost
        known = {mapping.tobytes() for mapping in chosen}
        best = [mappings[row] for row in np.argsort(cost, kind="stable")]
        fresh = {mapping.tobytes(): mapping for mapping in best if mapping.tobytes() not in known}
        chosen += list(fresh.values())[:count]
    return chosen


def place(problem: Problem, policy: Path | None = None, judged: bool = True) -> Placed:
    """The best mapping of the shipped network and rules, or that of a saved policy.

    If `judged`, the problem's model chooses, and the baseline is kept where nothing is faster. If not, no model is
    asked: the mapping is that of the policy, or of the network (of the first rule where no network ships).

    Raises:
        InputError: the problem places nothing by rank, no rules ship for it, or the policy does not fit.
    """
    if policy is None:
        made, sources = shipped_mappings(problem)
    else:
        made, sources = Policies([policy]).greedy(problem), ["the policy"]
    if not judged:
        return Placed(made[0], sources[0], 1, None)
    # One key for all, the baseline among them: if the chip's noise is on, it is the same for each.
    all_ = np.concatenate([made, problem.baseline.mapping[None]])
    cost = problem.evaluate(all_, np.zeros(len(all_), np.uint64)).cost
    speedup = np.where(np.isfinite(cost), cost[-1] / cost, 0.0)
    best = int(np.argmax(speedup[:-1]))
    if not speedup[best] > 1:
        return Placed(problem.baseline.mapping, "baseline", len(made), 1.0)
    return Placed(made[best], sources[best], len(made), float(speedup[best]))
