"""Method `nevergrad:NAME`: any optimiser of Nevergrad's registry (default DiscreteLenglerOnePlusOne).

Source: Bennet et al., "Nevergrad: black-box optimization platform" (2021). It is asked for one point at a time
(`num_workers = 1`) and told before the next: of that point and, with `told = "ran"`, then of the one that ran for it,
as of a point that it did not ask for. Optimisers that refuse such points are told of their own only.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray
from typing_extensions import Doc

from egrl.core.method import Context
from egrl.core.registry import MethodDefinition
from egrl.methods.peers.peer import Peer, PeerConfig, Points, check_name, definition, load
from workloads.errors import InputError


@dataclass(frozen=True)
class NevergradConfig(PeerConfig):
    """Settings of Nevergrad."""

    encoding: Annotated[
        Literal["integer", "choice"],
        Doc('"integer", one bounded variable a decision, rounded; "choice", one unordered choice a decision'),
    ] = "integer"
    budget: Annotated[
        int, Ge(1), Doc("evaluations that its optimisers plan for, where they plan; they go on beyond")
    ] = 4000


def nevergrad(name: str) -> MethodDefinition:
    """The method `nevergrad:NAME`. InputError where the extra or the name is missing."""
    package = load("nevergrad", f"nevergrad:{name}")
    chosen = check_name("nevergrad", name or "DiscreteLenglerOnePlusOne", sorted(package.optimizers.registry))
    _try(package, chosen)
    return definition(NevergradConfig, lambda context, own: Nevergrad(context, chosen, own))


def _try(package: Any, name: str) -> None:
    """InputError where the optimiser is a wrapper around something that is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            package.optimizers.registry[name](2, budget=4, num_workers=1).ask()
        except (ImportError, RuntimeError) as error:
            raise InputError(f"--method nevergrad:{name}: this optimiser needs more: {error}") from error


class Nevergrad(Peer):
    """One point at a time; the first is a suggestion, and where the optimiser's search begins."""

    def __init__(self, context: Context, name: str, config: NevergradConfig) -> None:
        super().__init__(context, "nevergrad", config)
        task = self.task
        package = load("nevergrad", f"nevergrad:{name}")
        self._groups = [np.flatnonzero(task.choices == count) for count in np.unique(task.choices)]
        self._integer = config.encoding == "integer"
        self._size = len(task.choices)
        with warnings.catch_warnings():  # advice on settings that were chosen on purpose
            warnings.simplefilter("ignore")
            if self._integer:
                parameter = package.p.Array(init=task.first.astype(np.float64))
                parameter = parameter.set_bounds(np.zeros(self._size), task.choices - 1.0)
                parameter = parameter.set_integer_casting()
            else:
                kinds = [
                    package.p.Choice(range(int(task.choices[g[0]])), repetitions=len(g), deterministic=True)
                    for g in self._groups
                ]
                parameter = package.p.Tuple(*kinds)
                parameter.value = self._value(task.first)
            self._refused = package.errors.TellNotAskedNotSupportedError
            parameter.random_state.seed(task.seed)
            self._optimiser = package.optimizers.registry[name](
                parameter, budget=config.budget, num_workers=1
            )
            self._optimiser.suggest(self._value(task.first))
        self._candidate: Any = None
        self._asked_for = task.first

    def points(self) -> Points:
        """The next point of the optimiser."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._candidate = self._optimiser.ask()
        value = self._candidate.value
        point = np.zeros(self._size, dtype=np.int64)
        if self._integer:
            point[:] = np.asarray(value)
        else:
            for group, part in zip(self._groups, value, strict=True):
                point[group] = part
        self._asked_for = point
        return point[None]

    def _value(self, point: Points) -> Any:
        """What Nevergrad calls a point int64 [D]."""
        if self._integer:
            return point.astype(np.float64)
        return tuple(tuple(point[group].tolist()) for group in self._groups)

    def learn_losses(self, loss: NDArray[np.float64], ran: Points) -> None:
        """Tell the optimiser of its candidate, and of what ran."""
        told = [self._candidate]
        if (ran[0] != self._asked_for).any():
            told.append(self._optimiser.parametrization.spawn_child(new_value=self._value(ran[0])))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for candidate in told:
                with suppress(self._refused):  # a few learn only from points of their own; the start is none
                    self._optimiser.tell(candidate, float(loss[0]))
