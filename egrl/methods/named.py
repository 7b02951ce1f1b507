"""The portfolios that have names.

    egrl   a population and SAC (Algorithm 2), and as further learners the profile model and the twin
    ea     the population alone, without a learner (EGRL's ablation, section 4)
    pg     SAC alone (EGRL's ablation, section 4)

The profile model takes turns where evaluations have profiles, the twin where a board measures; in `ea` and `pg` they do
if settings ask for them. `--preset paper` leaves both out: what remains is Algorithm 2 alone.

`pg` has 21 rollouts per round. SAC over choices makes a gradient step per evaluation there, as in the paper,
since nobody else searches.
"""

from __future__ import annotations

import tomllib
import warnings
from dataclasses import dataclass, field, fields, replace
from functools import partial
from importlib import resources
from typing import Annotated, Any, Literal

from typing_extensions import Doc

from egrl.core import typed_tables
from egrl.core.contracts import GENERATION
from egrl.core.method import Context, Method
from egrl.core.registry import MethodDefinition, needs_graph
from egrl.core.typed_tables import flattened
from egrl.methods import policy_fit
from egrl.methods.egrl.algorithm2 import Algorithm2
from egrl.methods.egrl.config import (
    LearnerConfig,
    PolicyConfig,
    RankingSacConfig,
    Readout,
)
from egrl.methods.egrl.parts import Parts
from egrl.methods.egrl.ranking import ranking_of
from egrl.methods.learner import Learner
from egrl.methods.manager import PROFILE_MODEL, TWIN
from egrl.methods.portfolio import Entrant, Portfolio
from egrl.methods.profile_model.accesses import learnable
from egrl.methods.profile_model.contract import ProfileModelConfig
from hwsim.capabilities import HasPlacer
from hwsim.problem import Problem
from population.config import EvolutionConfig
from population.operators import Operators
from workloads.errors import InputError, Notice
from workloads.text import one_of

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
    """Settings of EGRL.

    Example:
        >>> import egrl
        >>> from egrl.methods.named import EgrlConfig
        >>> result = egrl.search("alexnet", method=EgrlConfig(twin="off"), evals=60)
        >>> result.speedup >= 1.0
        True
    """

    evolution: Annotated[EvolutionConfig, Doc("the population")] = field(default_factory=EvolutionConfig)
    learner: Annotated[LearnerConfig, Doc("the learner")] = field(default_factory=LearnerConfig)
    twin: UseTwin = "auto"
    profile_model: Annotated[ProfileModelConfig, Doc("see `egrl.methods.profile_model.op_times`")] = field(
        default_factory=ProfileModelConfig
    )


@dataclass(frozen=True)
class EaConfig(PortfolioConfig):
    """Settings of EA.

    Example:
        >>> import egrl
        >>> from egrl.methods.named import EaConfig
        >>> result = egrl.search("alexnet", method=EaConfig(), evals=60)
        >>> result.speedup >= 1.0
        True
    """

    evolution: Annotated[EvolutionConfig, Doc("the population")] = field(default_factory=EvolutionConfig)


@dataclass(frozen=True)
class PgConfig(PortfolioConfig):
    """Settings of PG.

    Example:
        >>> import egrl
        >>> from egrl.methods.named import PgConfig
        >>> result = egrl.search("alexnet", method=PgConfig(), evals=60)
        >>> result.speedup >= 1.0
        True
    """

    learner: Annotated[LearnerConfig, Doc("the learner")] = field(
        default_factory=lambda: LearnerConfig(
            ranking=RankingSacConfig(rollouts=GENERATION), rollouts=GENERATION, gradient_steps=1.0
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
    """Population, learner or both. A policy to begin with says which network it is, unless settings do."""
    if context.init is not None and config.network == type(config)().network:
        config = replace(config, network=policy_fit.network_of(context.init, "--init"))
    ranking = ranking_of(context.problems[0], config, context.init)
    readout: Readout = "greedy" if ranking is None and config.readout == "place" else config.readout
    evolution, learner = _part(config, "population"), _part(config, "learner")
    if learner is not None:
        _say_what_is_idle(learner, _part(type(config)(), "learner"), ranks=ranking is not None)
    idle = ""
    if readout != config.readout:
        problem = context.problems[0]
        idle = "the policy of --init names the choice of each decision: nothing is placed by rank"
        if not isinstance(problem, HasPlacer):
            idle = f"in {problem.about.name} nothing is placed by rank: networks name the choice of each decision"
    return Algorithm2(context, Parts(config.network, evolution, learner, readout, ranking, operators, idle))


MEANT = {
    "sac.alpha": "ranking.entropy",
    "sac.actor_lr": "ranking.learning_rate",
    "rollouts": "ranking.rollouts",
    "gradient_steps": "ranking.steps",
}
"""Settings of SAC over choices, and those of SAC over rankings that do the same."""


def _say_what_is_idle(given: LearnerConfig, default: LearnerConfig, ranks: bool) -> None:
    """A notice of settings that were changed, and belong to the learner that the run does not have: which, and what is
    meant instead."""
    of_both = {"migration", "shared", "nodes"}
    values, usual = (typed_tables.dotted_keys(typed_tables.plain_table(each)) for each in (given, default))
    idle = [
        key
        for key, value in values.items()
        if value != usual[key] and key not in of_both and key.startswith("ranking.") != ranks
    ]
    if not idle:
        return
    meant = MEANT if ranks else {other: key for key, other in MEANT.items()}
    which = "SAC over rankings" if ranks else "SAC over choices, since nothing is placed by rank"
    of_its_own = "method.learner.ranking" if ranks else "method.learner.sac"
    said = [
        f"method.learner.{key}={values[key]} has no effect"
        + (f": method.learner.{meant[key]} is meant" if key in meant else f": {of_its_own} has what there is")
        for key in idle
    ]
    warnings.warn(Notice(f"{'; '.join(said)} (the learner here is {which})"), stacklevel=2)


def members(context: Context, config: PortfolioConfig) -> list[Entrant]:
    """Who takes turns with population and learner, in this order."""
    problem, settings = context.problems[0], config.profile_model
    found: list[Entrant] = []
    if settings.use != "off" and learnable(problem):
        found.append(Entrant(PROFILE_MODEL, partial(_profile_model, settings=settings), lambda _: True))
    if config.twin == "on" and not _has_family(problem):
        raise InputError(
            f"method.twin: expected auto or off, since the problem {problem.about.name} has no family of models,"
            " found on"
        )
    if config.twin != "off":
        found.append(Entrant(TWIN, _twin, partial(_has_twin, always=config.twin == "on")))
    return found


def _profile_model(context: Context, settings: ProfileModelConfig) -> Learner:
    from egrl.methods.profile_model.member import ProfileModelMember, profile_model_of  # as the twin

    model = profile_model_of(context.problems[0], settings)
    assert model is not None
    return ProfileModelMember(context, model, settings.first)


def _has_twin(context: Context, always: bool) -> bool:
    """With modelled costs there is nothing for a twin to learn: the simulator is in the family."""
    # Whether there is a family is asked last: to ask makes one.
    return always or (context.costs.measured and _has_family(context.problems[0]))


def _has_family(problem: Problem) -> bool:
    from hwsim.family import HasFamily

    return isinstance(problem, HasFamily)


def _twin(context: Context) -> Learner:
    from egrl.methods.twin.method import TwinMember  # it loads what runs without it need not

    return TwinMember(context)


PRINTED = "as_printed.toml"
"""Algorithm 2 with the values of Table 2, in the folder of `algorithm2`."""


def as_printed(config: type) -> dict[str, Any]:
    """What `--preset paper` sets, as keys of a config: all of it, so that no default can change what the paper runs."""
    text = (resources.files("egrl.methods.egrl") / PRINTED).read_text(encoding="utf-8")
    table, known = tomllib.loads(text), {field.name for field in fields(config)}
    alone = table.pop("pg")
    found = {key: value for key, value in flattened(table).items() if key.split(".")[0] in known}
    return found | (flattened(alone) if config is PgConfig else {})


EGRL, EA, PG = (
    MethodDefinition(config, build, needs_graph, as_printed(config), takes_policy=True)
    for config in (EgrlConfig, EaConfig, PgConfig)
)


def with_operators(operators: Operators, method: str = "ea") -> MethodDefinition:
    """The population with operators of DEAP, or your own, for `egrl.search(method=…)` and `--method MODULE:NAME`: alone
    (`ea`), or beside the learners of `egrl`.

    Raises:
        InputError: another method, which has no population.
    """
    definitions = {"ea": EA, "egrl": EGRL}
    if method not in definitions:
        raise InputError(f"with_operators: {one_of(method, definitions)}")
    return replace(definitions[method], make=partial(build, operators=operators))
