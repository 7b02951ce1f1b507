"""Method `optuna:NAME`: a sampler of Optuna (default TPESampler).

Source: Akiba et al., "Optuna: a next-generation hyperparameter optimization framework" (KDD 2019). It is asked for one
point at a time and told before the next: of that point and, with `told = "ran"`, then of the one that ran for it, as a
trial that was made elsewhere. Samplers that learn from generations of their own only (NSGAIISampler) take no heed of
it.
"""

from __future__ import annotations

import inspect
import warnings
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Doc

from egrl.core.method import Context
from egrl.core.registry import MethodDefinition
from egrl.methods.peers.peer import Peer, PeerConfig, Points, check_name, definition, load
from workloads.errors import InputError


@dataclass(frozen=True)
class OptunaConfig(PeerConfig):
    """Settings of Optuna."""

    encoding: Annotated[
        Literal["integer", "choice"],
        Doc('"integer", one ordered number per decision; "choice", one category per decision'),
    ] = "integer"


def optuna(name: str) -> MethodDefinition:
    """The method `optuna:NAME`. InputError where the extra or the name is missing."""
    samplers = load("optuna", f"optuna:{name}").samplers
    chosen = check_name("optuna", name or "TPESampler", _seeded(samplers))
    return definition(OptunaConfig, lambda context, own: Optuna(context, chosen, own))


def _seeded(samplers: Any) -> list[str]:
    """Names of the samplers that need nothing but a seed and never run out of points."""
    found = []
    for name in dir(samplers):
        kind = getattr(samplers, name)
        if inspect.isclass(kind) and name.endswith("Sampler") and name != "BruteForceSampler":
            parameters = inspect.signature(kind).parameters.values()
            needed = [p for p in parameters if p.default is p.empty and p.kind != p.VAR_KEYWORD]
            if not needed and any(p.name == "seed" for p in parameters):
                found.append(name)
    return found


class Optuna(Peer):
    """One trial at a time; the first is enqueued."""

    def __init__(self, context: Context, name: str, config: OptunaConfig) -> None:
        super().__init__(context, "optuna", config)
        task = self.task
        package = load("optuna", f"optuna:{name}")
        package.logging.set_verbosity(package.logging.WARNING)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                sampler = getattr(package.samplers, name)(seed=task.seed)
            except ImportError as error:
                raise InputError(f"--method optuna:{name}: this sampler needs more: {error}") from error
            self._study = package.create_study(sampler=sampler)
        self._made = package.trial.create_trial
        self._names = [f"x{number:06d}" for number in range(len(task.choices))]
        kinds = package.distributions
        self._space = {
            key: kinds.IntDistribution(0, int(count) - 1)
            if config.encoding == "integer"
            else kinds.CategoricalDistribution(range(int(count)))
            for key, count in zip(self._names, task.choices, strict=True)
        }
        self._study.enqueue_trial(dict(zip(self._names, task.first.tolist(), strict=True)))
        self._trial: Any = None

    def points(self) -> Points:
        """The parameters of the next trial."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._trial = self._study.ask(self._space)
        return np.array([[self._trial.params[key] for key in self._names]], dtype=np.int64)

    def learn_losses(self, loss: NDArray[np.float64], ran: Points) -> None:
        """Tell the study of its trial, and of what ran."""
        own = self._trial.params
        self._study.tell(self._trial, float(loss[0]))
        other = dict(zip(self._names, ran[0].tolist(), strict=True))
        if other != own:
            self._study.add_trial(self._made(params=other, distributions=self._space, value=float(loss[0])))
