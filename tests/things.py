"""Things that a file of a user may define, right and wrong ones; tests copy it to `things.py`."""

from dataclasses import dataclass

import numpy as np
from balance import Balance
from climb import ClimbConfig, HillClimber

from egrl.core.method import Method
from egrl.core.registry import MethodDefinition, ProblemDefinition, ProblemEntry, serves_all
from hwsim.mappings import choice_columns
from hwsim.problem import Observation

number = 3


@dataclass
class Without:
    "Settings."

    needed: int


class NoAsk(Method):
    def __init__(self, context):
        pass


class NoContext(Method):
    def ask(self):
        return None


class TwoMore(NoContext):
    def __init__(self, context, config, more):
        pass


class Unsettled(NoContext):
    def __init__(self, context, config: Without):
        pass


class Short(HillClimber):
    """Takes the context alone."""

    def __init__(self, context):
        super().__init__(context, ClimbConfig())


def one_argument(workload):
    return Balance(workload, "2")


def no_problem(workload, chip):
    return number


@dataclass(frozen=True)
class Cores:
    """Settings.

    Attributes:
        cores: of the machine.
    """

    cores: int = 3


def settled(workload: str, chip: str, config: "Cores"):
    """On as many cores as the settings say."""
    return Balance(workload, str(config.cores))


class Seen(Balance):
    """Jobs in a row, which policies see."""

    def __init__(self, workload, chip):
        super().__init__(workload, chip)
        rank = choice_columns(self.space.choice_rank, self.space.initial)
        x = np.concatenate([self.seconds[:, None], rank], axis=1).astype(np.float32)
        row = np.arange(len(x) - 1)
        self.observation = Observation(x, np.stack([row, row + 1]))


METHOD = MethodDefinition(ClimbConfig, HillClimber, lambda problem: "it is a test", {"changes": 3})
UNSETTLED = MethodDefinition(Without, HillClimber, serves_all, {})
PROBLEM = ProblemDefinition(
    Cores, settled, lambda: ["two", "four"], lambda chip: {"summary": chip}, {"cores": 5}
)
ENTRY = ProblemEntry("one line", "", "", lambda: PROBLEM, "random")
FAILS = ProblemEntry("one line", "", "", lambda: 1 // 0)
EMPTY = ProblemEntry("one line", "", "", lambda: number)
CHIPLESS = ProblemDefinition(Cores, settled, lambda: [][1], lambda chip: {}, {})
