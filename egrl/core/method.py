"""The contract of search methods, and what every method is built from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from egrl.core.archive import Archive, Proposals
from egrl.core.contracts import GENERATION
from hwsim.keys import run_keys
from hwsim.problem import Evaluation, Keys, Mapping16, Problem

if TYPE_CHECKING:
    from policies.store import StoredPolicy


@dataclass(frozen=True)
class Composition:
    """What a method is made of, for those who want to know who found what.

    Attributes:
        kinds: source of proposals -> what makes them: "graph_unet", "boltzmann", "sac", …; empty if it is one thing.
        migration: "offered", "accepted" and "alive": how often a learner's weights joined a population, how often they
            were good enough to have children, and how many still are; None where nothing migrates.
        temperatures: lowest and highest of a population's chromosomes; None without.
        idle: what the settings ask for and cannot act here, in a line; "" if all acts.
    """

    kinds: Mapping[str, str] = field(default_factory=dict)
    migration: Mapping[str, int] | None = None
    temperatures: tuple[float, float] | None = None
    idle: str = ""


class Method(ABC):
    """A search method: it proposes mappings, and gets their evaluations.

    Only `ask` must be implemented. `tests/egrl/methods/test_conformance.py` holds the contract:

    - If a problem has a start mapping, it is measured before the first `ask`, and `tell` gets it as a batch of one row
      from the source "start".
    - Every other batch comes from `ask`. `tell` gets it whole, in the order of asking.
    - With `ahead` = a, batch k gets its results after batch k + a was asked for; with 0, `ask` and `tell` alternate.
      So proposals never depend on timing, on the executor, or on the budget.
    - Of `Context.archive` a method reads only rows that `tell` has given it; later rows come when they are measured.

    Attributes:
        ahead: how many more batches may be asked for before a batch gets its results. If it is 0, a batch follows from
            all results before it. If it is more, boards that measure in parallel need not wait for the slowest of a
            batch. It never changes after the first batch.
        phase: what the next `ask` does, for the progress line, if that takes long; else "".
        proves: True if the method itself proves bounds, so that no second prover runs beside it.
        on_a_model: a line for the user if costs are a model's and the method is meant for measured ones; else "".
    """

    ahead: int = 0
    phase: str = ""
    proves: bool = False
    on_a_model: str = ""

    @abstractmethod
    def ask(self) -> Proposals | None:
        """A batch of mappings for one problem; None: there is nothing more to propose, ever.

        An empty batch asks for more time: the loop looks at the clock and at Ctrl-C, and calls `ask` again. A method
        that computes for longer than a second returns an empty batch about once per second.
        """

    def learn(self) -> bool | None:
        """Train on the results so far; the loop calls it after each `ask`, while the batch is being measured.

        Return True if there is more to do. Then it is called again, unless the results come first. What is proposed
        must not depend on how often it is called.
        """
        return None

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """Take the results of a batch, in the order of its rows; `proposals` has their tickets."""
        return

    def observe(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """Take the results of a batch that another member of a portfolio asked for (`egrl.methods.portfolio`)."""
        return

    def composition(self) -> Composition:
        """Who searches, if that is more than the method itself."""
        return Composition()

    def metrics(self) -> Mapping[str, float]:
        """Numbers for the row of a generation, by name: always the same names, NaN if there is no value yet."""
        return {}

    def policy(self) -> StoredPolicy | None:
        """The deployable policy, for transfer; None if the method has none."""
        return None

    def champion(self, problem: int) -> int | None:
        """The ticket of the evaluation to keep for a problem; None: the valid one with the highest reward."""
        return None

    def state_dict(self) -> dict[str, Any] | None:
        """All that is needed to go on from here, between any two calls: dicts, lists, numbers, strings and arrays.

        None: the method keeps no state. A new instance is brought back by repeating its `ask` and `tell` calls with
        what the archive holds.
        """
        return None

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Bring a new method to a state; the inverse of `state_dict`."""
        raise NotImplementedError("load_state_dict: expected of a method that has a state_dict")


@dataclass
class ModelUse:
    """A counter in a run's context: code that calls the simulator outside the loop adds its calls here.

    Attributes:
        calls: complete plans scored. A plan that is replayed from some decision on counts as the share that is
            replayed. A solver's own steps do not count: for a solve only `seconds` are counted.
        seconds: wall time of all this, without the compiling of kernels.
    """

    calls: float = 0.0
    seconds: float = 0.0

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count the seconds of a block."""
        from hwsim.jit import clock  # numba is slow to import, and a method without a model needs none of it

        begun = clock()
        try:
            yield
        finally:
            self.seconds += clock() - begun


@dataclass
class Costs:
    """Where the costs of a run come from; it goes with the run's context.

    Attributes:
        measured: True if costs are measured seconds, False if they are a model's. If the caller measures, this is known
            only when the first seconds are reported, before the first `ask`.
        noise: relative standard deviation of a measurement, estimated by measuring the baseline repeatedly; None if it
            is not known.
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
        rules: mappings int16 [N, H], measured before the first `ask` if there is one problem without a start mapping;
            see `egrl.core.loop`.
        init: a saved policy to begin with, or None.
        threads: of a learner's tensor operations.
        device: torch device of the networks.
        generation_evals: evaluations per generation; the default batch size of methods.
        model_use: counts what a method computes with the simulator in addition to its evaluations.
        seconds: the run's time limit, if its budget is in seconds. Only a solver may use it, as its time limit: nothing
            else that is proposed depends on the budget.
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
    model_use: ModelUse = field(default_factory=ModelUse)
    seconds: float | None = None
    rules: Sequence[Mapping16] = ()
    costs: Costs = field(default_factory=Costs)

    def generator(self, stream: str) -> np.random.Generator:
        """A generator of its own for each named stream of the run's seed."""
        return np.random.Generator(np.random.PCG64([self.seed, *stream.encode()]))

    def keys(self, stream: int, first: int, count: int) -> Keys:
        """uint64 [count], the keys of `hwsim.keys` for the rows `first`, `first` + 1, … of a method."""
        return run_keys(self.seed, np.arange(first, first + count), stream)
