"""The contract of search methods, and what every method is built from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from egrl.core.archive import Archive
from egrl.core.budget import GENERATION
from egrl.core.keys import run_keys
from egrl.core.model_use import ModelUse
from egrl.core.proposals import Proposals
from hwsim.problem import Evaluation, Keys, Mapping16, Problem

if TYPE_CHECKING:
    from policies.store import StoredPolicy


class Method(ABC):
    """A search method: it proposes mappings and is told what became of them.

    `ask` is all that it must have. `tests/egrl/methods/test_conformance.py` holds the contract:

    - The start mapping of each problem, where there is one, is measured and told before the first `ask`, as a batch
      of one row from the source "start".
    - Every other batch was asked for, and is told whole, in the order of asking.
    - Between `ask` number k and `tell` number k there are exactly `ahead` further calls of `ask`. So what is proposed
      never depends on timing, on who measures, or on the budget.
    - Of `Context.archive` a method reads what it has been told; later rows come when they are measured.

    Attributes:
        ahead: batches that may be asked for before the results of an earlier one are told. With 0 a batch follows from
            all results before it. With more, boards that measure in parallel need not wait for the slowest of a batch.
            It is settled before the first batch, and stays.
        phase: what the next `ask` does, for the progress line, where that takes long ("" otherwise).
    """

    ahead: int = 0
    phase: str = ""

    @abstractmethod
    def ask(self) -> Proposals | None:
        """A batch of mappings for one problem; None: there is nothing more to propose, ever.

        A batch without rows says that more time is needed: `ask` is called again, once the loop has looked at the clock
        and at Ctrl-C. A method that thinks for longer than a second gives one about every second.
        """

    def learn(self) -> bool | None:
        """Train on what has been told: called after each `ask`, while the batch is being measured.

        True: there is more to do. Then it is called again, unless the results come first; what is proposed must not
        depend on how often.
        """
        return None

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """Take the results of a batch, in the order of its rows; `proposals` has their tickets."""
        return

    def metrics(self) -> Mapping[str, float]:
        """Numbers for the row of a generation, by name: always the same names, NaN where there is no value yet."""
        return {}

    def policy(self) -> StoredPolicy | None:
        """The deployable policy, for transfer; None where the method has none."""
        return None

    def champion(self, problem: int) -> int | None:
        """The ticket of the evaluation to keep for a problem; None: the valid one with the highest reward."""
        return None

    def state_dict(self) -> dict[str, Any] | None:
        """All that is needed to go on from here, between any two calls: dicts, lists, numbers, strings and arrays.

        None: the method has no such state. A new one is brought back by asking and telling it again what the archive
        holds.
        """
        return None

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Bring a new method to a state; the inverse of `state_dict`."""
        raise NotImplementedError("load_state_dict: expected of a method that has a state_dict")


@dataclass
class Costs:
    """Where the costs of a run come from; it goes with the run's context.

    Attributes:
        measured: they are seconds that somebody measures, not a model's. A search whose caller measures knows it only
            when the first seconds are told, before the first `ask`.
        noise: relative standard deviation of a measurement, as measuring the baseline again and again has it; None
            where that is not known.
    """

    measured: bool = False
    noise: float | None = None


@dataclass(frozen=True)
class Context:
    """What every method is built from.

    Attributes:
        problems: at least one.
        archive: every evaluation so far; the loop appends, methods read.
        seed: of the run.
        start: for each problem a mapping int16 [N, H] to begin with, or None (cold).
        init: a saved policy to begin with, or None.
        threads: of a learner's tensor operations.
        device: torch device of the networks.
        generation_evals: evaluations a generation; a good batch for a method that has no reason for another.
        number: of the first of `problems` in the run.
        model_use: counts what a method computes with the simulator beside its evaluations.
        seconds: how long the run may take, where its budget is in seconds. For a solver's time limit only: what is
            proposed never depends on the budget otherwise.
        costs: where costs come from.
    """

    problems: Sequence[Problem]
    archive: Archive
    seed: int
    start: Sequence[Mapping16 | None]
    init: StoredPolicy | None = None
    threads: int = 1
    device: str = "cpu"
    generation_evals: int = GENERATION
    number: int = 0
    model_use: ModelUse = field(default_factory=ModelUse)
    seconds: float | None = None
    costs: Costs = field(default_factory=Costs)

    def generator(self, stream: str) -> np.random.Generator:
        """A generator of its own for each named stream of the run's seed."""
        apart = [self.number] if self.number else []
        return np.random.Generator(np.random.PCG64([self.seed, *stream.encode(), *apart]))

    def keys(self, stream: int, first: int, count: int) -> Keys:
        """uint64 [count], the keys of `egrl.core.keys` for the rows `first`, `first` + 1, … of a method."""
        return run_keys(self.seed, np.arange(first, first + count) + (self.number << 40), stream)

    def part(self, number: int) -> Context:
        """The context of a method for one of the problems."""
        return replace(
            self,
            problems=self.problems[number : number + 1],
            start=self.start[number : number + 1],
            number=self.number + number,
        )
