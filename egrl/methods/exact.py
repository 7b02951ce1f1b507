"""Exact: the solution of the problem's own model, as a method.

If a problem solves its model in one step, the method proposes that solution and ends. If the model is solved in many
steps, the method works on it for about a second per `ask`. It proposes each better mapping when it is found, and the
best one again when the bound has risen by `MIN_RISE`, so that a row of metrics shows it. It ends with the proof that
the mapping is optimal, or at the time limit.

The measured cost of a solution may differ from the modelled one (noise, a board that the model does not fit).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge, Gt, Le
from typing_extensions import Doc

from egrl.core.archive import Proposals, proposals
from egrl.core.method import Context, Method
from egrl.core.registry import MethodDefinition
from hwsim.capabilities import HasModel, HasSolving, Solving
from hwsim.jit import clock
from hwsim.problem import Bound, Mapping16, Problem

SECONDS = 60.0
"""Time limit where neither the settings nor the run have one."""
STEP_S = 1.0
"""How long a solve works between two looks at the clock and at Ctrl-C."""
MIN_RISE = 1e-3
"""Relative rise of the bound below which it is not reported unless there is a better mapping."""
SOURCE = "exact"


@dataclass(frozen=True)
class ExactConfig:
    """Settings of the solve.

    Example:
        >>> import egrl
        >>> from egrl.methods.exact import ExactConfig
        >>> result = egrl.search("alexnet", method=ExactConfig(seconds=5.0), evals=2)
        >>> result.speedup >= 1.0
        True
    """

    seconds: Annotated[
        float | None,
        Gt(0),
        Le(1e6),
        Doc("time limit of the solve; the bound reached by then counts. Default: the run's --seconds, or 60"),
    ] = None
    threads: Annotated[int, Ge(1), Le(1024), Doc("threads of a solve that goes on little by little")] = 2


class Exact(Method):
    """The solution of a model that is solved in one piece."""

    proves = True

    def __init__(self, context: Context, config: ExactConfig) -> None:
        self._context = context
        self._limit_s = config.seconds or context.seconds or SECONDS
        self.phase = f"solving the model, {self._limit_s:g} s at most"
        self._metrics: dict[str, float] | None = None
        self._solved_s = 0.0

    def ask(self) -> Proposals | None:
        """The solution; once more in a run that goes on with more seconds, if it was the limit that ended the solve."""
        if self._limit_s <= self._solved_s:
            return None
        problem = self._context.problems[0]
        assert isinstance(problem, HasModel)
        with self._context.model_use.timed():
            solution = problem.solve(self._limit_s, self._context.seed)
        self.phase, self._solved_s = "", math.inf if solution.complete else self._limit_s
        self._metrics = {"model_bound": solution.bound.cost, "model_cost": solution.cost}
        return proposals(solution.mapping[None], SOURCE)

    def metrics(self) -> Mapping[str, float]:
        """Bound and cost that the model gave."""
        return self._metrics or {"model_bound": np.nan, "model_cost": np.nan}

    def state_dict(self) -> dict[str, Any]:
        """What was solved."""
        return {"metrics": self._metrics, "solved_s": self._solved_s}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._metrics, self._solved_s = state["metrics"], state.get("solved_s", math.inf)


@dataclass
class _Reached:
    """Progress of a solve: its best, its bound, the bound reported last, and the seconds it worked."""

    best: Mapping16 | None = None
    cost: float = math.inf
    bound: float = 0.0
    proof: str = ""
    seconds: float = 0.0
    told_bound: float = 0.0
    done: bool = False


class Anytime(Method):
    """The best mapping and the bound of a model that is solved in many steps."""

    proves = True

    def __init__(self, context: Context, config: ExactConfig) -> None:
        self._context, self._config = context, config
        problem = context.problems[0]
        assert isinstance(problem, HasSolving)
        self._problem: HasSolving = problem
        self._limit_s = config.seconds or context.seconds or SECONDS
        self._solving: Solving | None = None
        self._at = _Reached()
        start = context.start[0]
        if start is not None and (cost := problem.model_cost(start)) < math.inf:
            self._at = _Reached(start, cost)

    @property
    def _finished(self) -> bool:
        return self._at.done or self._at.seconds >= self._limit_s

    def ask(self) -> Proposals | None:
        """The best mapping if it is better than the last, or the bound higher; nothing where neither is."""
        at = self._at
        if self._finished:
            return None
        before = at.cost
        self._work()
        assert self._solving is not None
        best = self._solving.best
        if best is not None and self._solving.cost < at.cost:
            at.best, at.cost = best, self._solving.cost
        at.done = self._solving.done
        risen = at.bound > at.told_bound * (1 + (0 if self._finished else MIN_RISE))
        if at.best is None or not (at.cost < before or risen):
            return proposals(np.empty((0, *self._context.problems[0].space.shape), np.int16), SOURCE)
        at.told_bound = at.bound
        return proposals(at.best[None], SOURCE)

    def _work(self) -> None:
        """Solve for about a second, from the best so far on where this is the first time."""
        begun, at = clock(), self._at
        with self._context.model_use.timed():
            if self._solving is None:
                self._solving = self._problem.solving(self._context.seed, self._config.threads, at.best)
            left_s = self._limit_s - at.seconds - (clock() - begun)
            if left_s > 0:
                self._solving.work(min(STEP_S, left_s))
        at.seconds += clock() - begun
        proved = self._solving.bound
        if proved.cost > at.bound:  # a run that goes on knows a higher one at first
            at.bound, at.proof = proved.cost, proved.proof
        self._prove()
        self.phase = f"solving the model, {at.seconds:.0f} s, bound {at.bound:.6g}"

    def _prove(self) -> None:
        self._problem.prove(Bound(self._at.bound, math.inf, self._at.proof, self._at.seconds))

    def metrics(self) -> Mapping[str, float]:
        """Bound and cost so far."""
        at = self._at
        return {
            "model_bound": at.bound if at.bound > 0 else np.nan,
            "model_cost": at.cost if at.best is not None else np.nan,
        }

    def state_dict(self) -> dict[str, Any]:
        """The progress; after loading it, a solve starts again from the best mapping."""
        return dict(vars(self._at))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._at = _Reached(**state)
        best, shape = self._at.best, self._context.problems[0].space.shape
        if best is not None and best.shape != shape:
            raise ValueError(f"best: expected shape {shape}, found {best.shape}")
        if self._finished:  # nothing more is worked on, and so nothing more proved
            self._prove()


def build(context: Context, config: ExactConfig) -> Method:
    """The method for one problem, as its model is solved."""
    little = isinstance(context.problems[0], HasSolving)
    return Anytime(context, config) if little else Exact(context, config)


def serves(problem: Problem) -> str | None:
    """Only problems that can solve a model of themselves."""
    return None if isinstance(problem, HasModel) else "the problem has no model that can be solved"


DEFINITION = MethodDefinition(ExactConfig, build, serves, {})
