"""What `egrl` is made of: each part acts by default, and the paper's composition inherits no default."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest

import egrl
from egrl.core import typed_tables
from egrl.core.archive import Archive, Proposals
from egrl.core.method import Context, Costs
from egrl.core.typed_tables import flattened
from egrl.methods import find_method
from egrl.methods.egrl.algorithm2 import Algorithm2
from egrl.methods.egrl.ranking_sac import RankingSac
from egrl.methods.egrl.sac_learner import SacLearner
from egrl.methods.named import EaConfig, EgrlConfig, PgConfig, as_printed
from egrl.methods.players import Policies
from egrl.methods.portfolio import Portfolio
from egrl.runs.text import opening_lines
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiProblem
from hwsim.problem import Problem
from policies.network import NetworkConfig
from population.generational import Generational
from population.genome import Boltzmann
from population.plus import MIGRATION, Plus
from toys import ToyRagged
from workloads.load import load

ROUNDS = MIGRATION + 2


@pytest.fixture(scope="module")
def alexnet() -> NnpiProblem:
    return NnpiProblem(load("alexnet"), load_chip("nnpi"))


def build(problem: Problem, name: str = "egrl", paper: bool = False, **settings):
    definition = find_method(name)
    given = {**(definition.paper if paper else {}), **settings}
    context = Context([problem], Archive([problem]), 0, [problem.baseline.mapping], costs=Costs(False))
    return definition.build(context, typed_tables.build(definition.config, given, "test")), context


def measure(method, context: Context, batch: Proposals) -> None:
    batch = batch.numbered(len(context.archive))
    found = context.problems[0].evaluate(batch.mapping, np.zeros(len(batch), np.uint64))
    context.archive.append(batch, found)
    method.learn()
    method.tell(batch, found)


def rounds_of(method, context: Context, rounds: int = ROUNDS) -> Algorithm2:
    """So many rounds of population and learner; batches of other members between them are measured, too."""
    core = method._core if isinstance(method, Portfolio) else method
    done = 0
    while done < rounds:
        batch = method.ask()
        if len(batch):
            done += bool(set(batch.source.tolist()) & {"network", "sac"})
            measure(method, context, batch)
    return core


@pytest.fixture(scope="module")
def default(alexnet):
    """The default after some rounds, without the profile model, which would take the first evaluations."""
    method, context = build(alexnet, **{"profile_model.use": "off", "twin": "off"})
    return rounds_of(method, context), context


def test_the_population_holds_graph_unets_and_chromosomes_from_the_first_generation_on(alexnet, default):
    method, _ = build(alexnet, **{"profile_model.use": "off", "twin": "off"})
    for core in (method, default[0]):
        assert isinstance(core._population, Plus)
        encodings = [member.encoding for member in core._population.members]
        assert encodings.count("network") == encodings.count("boltzmann") == 10
        assert core._parts.network == NetworkConfig("graph_unet", depth=1, width=16, attention_heads=2)
        assert dict(core.composition().kinds) == {
            "network": "graph_unet",
            "boltzmann": "boltzmann",
            "sac": "sac",
        }


def test_graph_unets_add_to_the_scores_of_rules(alexnet):
    population = build(alexnet, "ea")[0]._population
    policies = population.policies
    networks = [member for member in population.members if member.encoding == "network"]
    scores, _ = policies.scores(networks)
    for member in networks:
        member.genome.weights[policies.trunk.stop :] = 0
    rules, _ = policies.scores(networks)
    assert (np.abs(scores - rules).max(axis=(1, 2)) > 0).all()


def test_two_readings_of_a_hot_chromosome_differ_and_those_of_a_cold_one_do_not(default):
    core, _ = default
    population, rng = core._population, np.random.default_rng(0)
    prior = next(m.genome.prior for m in population.chromosomes)
    shape = prior.shape[:2]
    for temperature, differ in ((0.5, True), (1e-6, False)):
        genome = Boltzmann(prior, np.full(shape, temperature, np.float32))
        readings = population.policies.read([genome] * 2, rng)
        assert (readings[0] != readings[1]).any() == differ
    low, high = population.temperatures
    assert 0.01 < low < high


def test_temperatures_are_inherited_and_change(default):
    core, _ = default
    found = [m.genome.temperature for m in core._population.members if isinstance(m.genome, Boltzmann)]
    fresh = core._population._make.anchored(core._problem.baseline.mapping).temperature
    assert all((temperature != fresh).any() for temperature in found)


def test_sac_learns_from_what_others_measured(default):
    core, context = default
    learner = core._learner
    assert isinstance(learner, RankingSac)
    sources = context.archive.sources(slice(0, len(context.archive)))
    assert len(learner._critic._cost) == len(sources)
    assert (sources != "sac").mean() > 0.5
    assert learner._training.rounds > 0  # steps of the actor
    assert np.isfinite(list(learner.metrics().values())).all()


def test_what_others_measured_changes_what_sac_proposes(alexnet):
    asked = []
    for shared in (True, False):
        given = {"profile_model.use": "off", "twin": "off", "learner.shared": shared}
        method, context = build(alexnet, **given)
        core = rounds_of(method, context)
        asked.append(core._learner.ask().mapping)
    assert asked[0].shape == asked[1].shape
    assert (asked[0] != asked[1]).any()


def test_a_migrant_was_offered_and_accepted(default):
    found = default[0].composition().migration
    assert found["offered"] >= 1
    assert 1 <= found["accepted"] <= found["offered"]
    assert found["alive"] <= found["accepted"]


def test_without_migration_nothing_joins(alexnet):
    method, context = build(alexnet, **{"profile_model.use": "off", "learner.migration": False})
    assert rounds_of(method, context).composition().migration == {"offered": 0, "accepted": 0, "alive": 0}


def test_the_profile_model_is_a_member_where_there_are_profiles(alexnet):
    method, _ = build(alexnet)
    assert "profile_model" in method.composition().kinds
    assert "profile_model" not in build(ToyRagged())[0].composition().kinds


def test_ea_has_no_learner_and_pg_no_population(alexnet):
    ea, pg = build(alexnet, "ea")[0], build(alexnet, "pg")[0]
    assert isinstance(ea._population, Plus)
    assert ea._learner is None
    assert dict(ea.composition().kinds) == {"network": "graph_unet", "boltzmann": "boltzmann"}
    assert isinstance(pg._learner, RankingSac)
    assert pg._population is None
    assert len(pg.ask()) == 21


def test_where_nothing_is_placed_the_first_lines_say_what_cannot_act():
    method = build(ToyRagged())[0]
    assert "nothing is placed by rank" in method.composition().idle
    assert isinstance(method._core._learner, SacLearner)


@pytest.mark.parametrize("name", ["egrl", "ea", "pg"])
def test_as_printed_is_algorithm_2_alone(alexnet, name):
    method, context = build(alexnet, name, paper=True)
    assert isinstance(method, Algorithm2)
    parts = method._parts
    assert parts.network == NetworkConfig("graph_unet", depth=4, width=128, attention_heads=4)
    assert (parts.readout, parts.ranking, parts.idle) == ("sample", None, "")
    if name != "pg":
        population = method._population
        assert isinstance(population, Generational)
        assert [m.encoding for m in population.members].count("boltzmann") == 4
        assert population.config.flips == 0
        assert all(m.origin in ("random", "start") for m in population.members)
    if name != "ea":
        assert isinstance(method._learner, SacLearner)
        assert method._learner.config.sac.imitation == 0
        assert method._learner.config.gradient_steps == 1
        measure(method, context, method.ask())
        measure(method, context, method.ask())
        assert method._learner._sac.updates > 0
    if name == "egrl":
        measure(method, context, method.ask())
        assert method.composition().migration["offered"] >= 1


@pytest.mark.parametrize("config", [EgrlConfig, EaConfig, PgConfig])
def test_the_printed_composition_states_every_setting(config):
    """A setting that it left out would have the package's default, which may change."""
    assert set(as_printed(config)) == set(flattened(asdict(config())))


@pytest.mark.parametrize("start", ["compiler", "cold"])
def test_the_deployable_policy_is_a_graph_unet_that_places_another_network(alexnet, start, tmp_path):
    settings = ["method.profile_model.use=off"]
    egrl.search(
        "alexnet", evals=63, settings=settings, start=start, out=tmp_path / "r", quiet=True, bound_seconds=0
    )
    path = max((tmp_path / "r" / "policies").iterdir())
    found = Policies([path])
    assert found.stored[0].metadata["config"] == {
        key: value
        for key, value in asdict(NetworkConfig(depth=1, width=16, attention_heads=2)).items()
        if key != "name"
    }
    other = NnpiProblem(load("resnet18"), load_chip("nnpi"))
    placed = found.greedy(other)
    assert not other.judge(placed[0])
    assert other.evaluate(placed, np.zeros(1, np.uint64)).speedup[0] > 0.9


def test_a_summary_says_who_did_what():
    found = egrl.search("alexnet", gens=6, quiet=True, bound_seconds=0).summary
    assert {member["name"] for member in found["members"]} == {"network", "boltzmann", "sac", "profile_model"}
    assert all(member["evaluations"] > 0 for member in found["members"])
    assert set(found["migration"]) == {"offered", "accepted", "alive"}


def test_the_first_line_says_who_searches(alexnet):
    found = build(alexnet)[0].composition()
    expected = "searching: Graph U-Nets, Boltzmann chromosomes, SAC, the profile model"
    assert opening_lines(found, measured=False) == [expected]
    assert opening_lines(found, measured=True) == [f"{expected} (if the board says how long each op took)"]
    linear = build(alexnet, "ea", **{"network.name": "linear"})[0].composition()
    assert opening_lines(linear, measured=False) == ["searching: linear rules, Boltzmann chromosomes"]
    toy = build(ToyRagged())[0].composition()
    assert len(opening_lines(toy, measured=False)) == 2
