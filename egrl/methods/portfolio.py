"""Several methods over one archive, which share the budget of a run by what they find.

The last member, the *core*, proposes whenever no other has its turn. Each of the others divides the rounds between
itself and those after it by their successes (`egrl.methods.credit`). What one member measured the others observe.
A portfolio knows its members as methods, and nothing else of them.

If a member computes while the batch before is being measured (`ahead` = 1), one batch of the portfolio is ahead of the
results, so that boards do not wait. The core's next round follows from all results of its round before: meanwhile the
last of the other members fills in. When a generation ends, the next batch may have been asked for or not, so metrics
and policy are those of the last `tell`.

The portfolios that have names.

    egrl   profile model, twin, and population and learner (Algorithm 2)
    ea     the population alone, without a learner (EGRL's ablation, section 4)
    pg     the learner alone (EGRL's ablation, section 4, whose learner is SAC)

The profile model takes turns where evaluations have profiles, the twin where a board measures; in `ea` and `pg` they do
if settings ask for them. `--preset paper` leaves both out: what remains is Algorithm 2 alone.

`pg` has 21 rollouts per round and, where its learner is SAC, a gradient step per evaluation as in the paper: nobody
else searches there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, Literal

from typing_extensions import Doc

from egrl.core.archive import START, Proposals
from egrl.core.contracts import GENERATION
from egrl.core.method import Context, Method
from egrl.core.registry import MethodDefinition, needs_graph
from egrl.methods.credit import PROFILE_MODEL, TWIN, Member
from egrl.methods.egrl.algorithm2 import Algorithm2
from egrl.methods.egrl.config import (
    PAPER_LEARNER,
    PAPER_POPULATION,
    LearnerConfig,
    PolicyConfig,
    RankLearnerConfig,
)
from egrl.methods.egrl.first_population import Parts
from egrl.methods.egrl.ranking import names_choices, network_of, ranking_of
from egrl.methods.profile_model.choice import profile_model_of
from egrl.methods.profile_model.config import ProfileModelConfig
from egrl.methods.profile_model.member import ProfileModelMember
from hwsim.family import HasFamily
from hwsim.problem import Evaluation
from policies.network import AUTO
from policies.store import StoredPolicy
from population.config import EvolutionConfig
from population.operators import Operators
from workloads.errors import InputError


@dataclass(frozen=True)
class Entrant:
    """A member that may come.

    Attributes:
        name: of the member.
        make: makes it.
        due: whether it has a part in the run, as far as is known; asked until the core has its first round.
    """

    name: str
    make: Callable[[Context], Member]
    due: Callable[[Context], bool]


class Portfolio(Method):
    """See the module."""

    def __init__(self, context: Context, core: tuple[str, Method], entrants: Sequence[Entrant]) -> None:
        """The core by its name; the entrants in the order of their turns."""
        self._context, self._entrants = context, entrants
        self._name, self._core = core
        self._members: list[Member | None] = [None] * len(entrants)
        self._begun = False  # the core has had a round, so that nobody enters any more
        self._open: list[str] = []  # who asked for the batches that were not told yet
        self._passed: set[str] = set()  # who had nothing to propose since the last batch
        self._measured: dict[str, int] = {}  # evaluations of each member
        self._shown: dict[str, float] = {}
        self._policy: StoredPolicy | None = None

    @property
    def _joined(self) -> list[Member]:
        return [member for member in self._members if member is not None]

    def _join(self) -> None:
        """Let those enter who have a part in the run, as far as is known."""
        if self._begun:
            return
        for place, entrant in enumerate(self._entrants):
            if self._members[place] is None and entrant.due(self._context):
                self._members[place] = member = entrant.make(self._context)
                self.ahead = max(self.ahead, member.ahead)
                self._shown |= member.metrics()

    def ask(self) -> Proposals | None:
        """A batch of the first member whose turn it is; without rows while it thinks."""
        self._join()
        before: list[Member] = []
        waits = self._name in self._open
        for member in self._joined:
            fills_in = waits and member is self._joined[-1]
            if fills_in or (member.its_turn and member.name not in self._passed):
                batch = member.ask()
                self.phase = member.phase
                assert batch is not None
                if len(batch) or member.phase or fills_in:
                    return self._asked(member.name, before, batch)
                # Not asked again until a batch is out: how often the others are asked for it depends on time.
                self._passed.add(member.name)
            before.append(member)
        own = self._core.ask()
        self._begun, self.phase = True, self._core.phase
        return None if own is None else self._asked(self._name, before, own)

    def _asked(self, name: str, before: Sequence[Member], batch: Proposals) -> Proposals:
        """A batch of one member, for which those before it have waited."""
        for member in before:
            member.rounds.waited(len(batch))
        if len(batch):
            self._open.append(name)
            self._passed.clear()
        return batch

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """To all: to who asked as its own, to the others as what they observe."""
        self._join()
        asked = None if START in proposals.source else self._open.pop(0)
        if asked is not None:
            self._measured[asked] = self._measured.get(asked, 0) + len(proposals)
        for name, member in self._by_name().items():
            take = member.tell if asked in (None, name) else member.observe
            take(proposals, evaluation)
        if self.ahead:
            self._shown, self._policy = dict(self._core.metrics()), self._core.policy()
        for member in reversed(self._joined):
            self._shown |= member.metrics()

    def _by_name(self) -> dict[str, Method]:
        """The core first, then the others, last ones first."""
        return {self._name: self._core, **{member.name: member for member in reversed(self._joined)}}

    def learn(self) -> bool | None:
        """Everybody learns what is due."""
        more = [method.learn() for method in self._by_name().values()]
        return any(more)

    def shares(self) -> Mapping[str, float]:
        """Share of the evaluations that were told, by name, the core last; nothing if the core is alone."""
        others, total = [member.name for member in self._joined], sum(self._measured.values())
        if not others or not total:
            return {}
        return {name: self._measured.get(name, 0) / total for name in (*others, self._name)}

    def metrics(self) -> Mapping[str, float]:
        """Of all; of the core as of now, unless a batch is ahead."""
        return {**self._core.metrics(), **self._shown}

    def policy(self) -> StoredPolicy | None:
        """The core's."""
        return self._core.policy() if self._policy is None else self._policy

    def champion(self, problem: int) -> int | None:
        """That of the first member which names one."""
        named = (method.champion(problem) for method in (*self._joined, self._core))
        return next((ticket for ticket in named if ticket is not None), None)

    def state_dict(self) -> dict[str, Any] | None:
        """Of all, and whose batches are open."""
        policy = self._policy
        return {
            "members": {name: method.state_dict() for name, method in self._by_name().items()},
            "begun": self._begun,
            "open": list(self._open),
            "passed": sorted(self._passed),
            "measured": self._measured,
            "shown": self._shown,
            "policy": None
            if policy is None
            else {"weights": dict(policy.weights), "metadata": dict(policy.metadata)},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._members = [
            entrant.make(self._context) if entrant.name in state["members"] else None
            for entrant in self._entrants
        ]
        self.ahead = max([0, *(member.ahead for member in self._joined)])
        for name, method in self._by_name().items():
            method.load_state_dict(state["members"][name])
        self._begun, self._open, self._passed = state["begun"], list(state["open"]), set(state["passed"])
        self._shown, self._measured = dict(state["shown"]), dict(state["measured"])
        self._policy = None if state["policy"] is None else StoredPolicy(**state["policy"])


UseTwin = Annotated[
    Literal["auto", "on", "off"],
    Doc(
        '"on": the twin takes turns with population and learner; "off": it does not; "auto": it'
        " does where a board measures and the problem has a family of models"
    ),
]
OFF = ProfileModelConfig(use="off")


@dataclass(frozen=True)
class PortfolioConfig(PolicyConfig):
    """Settings of policies, and of the members beside them."""

    twin: UseTwin = "off"
    profile_model: Annotated[ProfileModelConfig, Doc("see `egrl.methods.profile_model.op_times`")] = OFF


@dataclass(frozen=True)
class EgrlConfig(PortfolioConfig):
    """Settings of EGRL."""

    evolution: Annotated[EvolutionConfig, Doc("the population")] = field(default_factory=EvolutionConfig)
    learner: Annotated[LearnerConfig, Doc("the learner")] = field(default_factory=LearnerConfig)
    twin: UseTwin = "auto"
    profile_model: Annotated[ProfileModelConfig, Doc("see `egrl.methods.profile_model.op_times`")] = field(
        default_factory=ProfileModelConfig
    )


@dataclass(frozen=True)
class EaConfig(PortfolioConfig):
    """Settings of EA."""

    evolution: Annotated[EvolutionConfig, Doc("the population")] = field(default_factory=EvolutionConfig)


@dataclass(frozen=True)
class PgConfig(PortfolioConfig):
    """Settings of PG."""

    learner: Annotated[LearnerConfig, Doc("the learner")] = field(
        default_factory=lambda: LearnerConfig(
            rank=RankLearnerConfig(rollouts=GENERATION), rollouts=GENERATION, gradient_steps=1.0
        )
    )


def build(context: Context, config: PortfolioConfig, operators: Operators | None = None) -> Method:
    """Algorithm 2, or a portfolio of it and of members beside it, as settings and problem have it.

    InputError if the twin is "on" and the problem has no family of models.
    """
    core, entrants = algorithm2(context, config, operators), members(context, config)
    name = " and ".join(part for part in ("population", "learner") if _part(config, part))
    return Portfolio(context, (name, core), entrants) if entrants else core


def _part(config: PortfolioConfig, name: str) -> Any:
    """The settings of the population or the learner; None of a method without it."""
    return getattr(config, {"population": "evolution"}.get(name, name), None)


def algorithm2(context: Context, config: PortfolioConfig, operators: Operators | None) -> Algorithm2:
    """Population, learner or both."""
    problem, readout = context.problems[0], config.readout
    if readout == "place" and config.network.name == AUTO and names_choices(context.init):
        readout = "greedy"  # the policy to begin with says how it is read
    ranking = ranking_of(problem, config.network, readout)
    network = network_of(problem, config.network, ranking)
    evolution, learner = _part(config, "population"), _part(config, "learner")
    return Algorithm2(context, Parts(network, evolution, learner, readout, ranking, operators))


def members(context: Context, config: PortfolioConfig) -> list[Entrant]:
    """Who takes turns with population and learner, in this order."""
    problem, settings = context.problems[0], config.profile_model
    found: list[Entrant] = []
    model = None if settings.use == "off" else profile_model_of(problem, settings)
    if model is not None:
        made = partial(ProfileModelMember, model=model, first=settings.first)
        found.append(Entrant(PROFILE_MODEL, made, lambda _: True))
    if config.twin == "on" and not isinstance(problem, HasFamily):
        raise InputError(
            f"method.twin: expected auto or off, since the problem {problem.about.name} has no family of models,"
            " found on"
        )
    if config.twin != "off":
        found.append(Entrant(TWIN, _twin, partial(_has_twin, always=config.twin == "on")))
    return found


def _has_twin(context: Context, always: bool) -> bool:
    """With modelled costs there is nothing for a twin to learn: the simulator is in the family."""
    # Whether there is a family is asked last: to ask makes one.
    return always or (context.costs.measured and isinstance(context.problems[0], HasFamily))


def _twin(context: Context) -> Member:
    from egrl.methods.twin.method import TwinMember  # it loads what runs without it need not

    return TwinMember(context)


PAPER_ALONE = {"twin": "off", "profile_model.use": "off"}
EGRL = MethodDefinition(
    EgrlConfig, build, needs_graph, {**PAPER_POPULATION, **PAPER_LEARNER, **PAPER_ALONE}, takes_policy=True
)
EA = MethodDefinition(EaConfig, build, needs_graph, PAPER_POPULATION, takes_policy=True)
PG = MethodDefinition(PgConfig, build, needs_graph, PAPER_LEARNER, takes_policy=True)


def with_operators(operators: Operators) -> MethodDefinition:
    """EA with operators of DEAP, or your own, for `egrl.search(method=…)` and `--method MODULE:NAME`."""
    return replace(EA, make=partial(build, operators=operators))
