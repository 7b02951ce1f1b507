"""Search methods, a file or a folder each, built from (Context, its config); they propose, and never measure."""

from __future__ import annotations

import inspect
from dataclasses import replace

from egrl.core.method import Method
from egrl.core.registry import MethodDefinition, MethodEntry, serves_all
from workloads import plugins
from workloads.errors import InputError
from workloads.references import failed

METHODS: dict[str, MethodEntry] = {
    "egrl": MethodEntry(
        "egrl.methods.named",
        "collaborative evolutionary RL: a population and learners share the evaluations by what they find",
        definition="EGRL",
        members={
            "population": "Graph U-Nets and Boltzmann chromosomes; the best of all that was measured have children",
            "SAC": "learns from everybody's mappings, follows a critic of them, and migrates into the population",
            "profile model": "learns what every part of a cost takes; where evaluations have profiles",
            "twin": "learns what the chip file has wrong; where a board measures",
        },
    ),
    "ea": MethodEntry("egrl.methods.named", "the population of `egrl` alone", definition="EA"),
    "pg": MethodEntry("egrl.methods.named", "SAC alone", definition="PG"),
    "rank": MethodEntry(
        "egrl.methods.rank.method",
        "one ranking network, which a placer reads, trained by the gradient of its scores",
    ),
    "es": MethodEntry("egrl.methods.es", "evolution strategies on the weights of one Graph U-Net"),
    "ppo": MethodEntry(
        "egrl.methods.ppo.method",
        "PPO on a GraphSAGE network that refines a mapping pass by pass and reads any number of choices",
    ),
    "revise": MethodEntry(
        "egrl.methods.revise",
        "simulated annealing of a problem's games: plays again with some moves changed",
    ),
    "greedy-dp": MethodEntry(
        "egrl.methods.greedy_dp",
        "one node at a time, trying every combination of its choices; where plans are made of plans for parts, dynamic"
        " programming over these",
    ),
    "twin": MethodEntry(
        "egrl.methods.twin.method",
        "for boards: learns from each measurement what the chip file has wrong, and searches the learned model",
    ),
    "exact": MethodEntry(
        "egrl.methods.exact", "the solution of the problem's own model, by branch and cut and local search"
    ),
    "annealing": MethodEntry("egrl.methods.annealing", "simulated annealing by the local moves of `ea`"),
    "random": MethodEntry("egrl.methods.random", "independent uniform draws"),
}


KIND = plugins.Kind(
    "method",
    "--method",
    tuple(METHODS),
    "a MethodEntry, a MethodDefinition, or a class derived from Method",
)
"""What plug-ins of the group `egrl.methods` are."""


def find_method(name: str) -> MethodDefinition:
    """The method called `name`: NAME, the name of a plug-in, or MODULE:NAME.

    InputError in one line where there is none, or its code cannot be imported.
    """
    own, colon, _ = name.partition(":")
    if colon and own in METHODS:
        raise InputError(f"--method: expected {own}, which has no variants, found {name!r}")
    entry = METHODS.get(name)
    if entry is not None:
        plugins.installed(KIND)  # says which plug-ins cannot have their names
        return entry.load()
    return definition_of(plugins.find(KIND, name))


def list_methods() -> list[dict[str, object]]:
    """Name and summary of every method, those of plug-ins included, and the members of portfolios."""
    own = {name: entry.summary for name, entry in METHODS.items()}
    found = plugins.listing(KIND, own, _summary)
    for entry in found:
        if (own_entry := METHODS.get(str(entry["name"]))) is not None and own_entry.members:
            entry["members"] = dict(own_entry.members)
    return found


def is_method(thing: object) -> bool:
    """Whether something is a definition of a method, or a class of methods."""
    return isinstance(thing, MethodDefinition) or (isinstance(thing, type) and issubclass(thing, Method))


def definition_of(found: plugins.Outside) -> MethodDefinition:
    """The method that code outside the package defines. InputError where it defines none.

    A class serves every problem, and has no values of a paper.
    """
    thing = found.thing
    if isinstance(thing, MethodEntry):
        return definition_of(replace(found, thing=_loaded(found, thing)))
    if isinstance(thing, MethodDefinition):
        plugins.check_settings(found, thing.config)
        return thing
    if not is_method(thing):
        raise found.refuse(plugins.described(found))
    if inspect.isabstract(thing):
        raise found.refuse(f"{found.name} without {', '.join(sorted(thing.__abstractmethods__))}")
    settings = plugins.settings_of(found, thing, ("context",))
    if settings is plugins.NoSettings:
        return MethodDefinition(settings, lambda context, config: thing(context), serves_all, {})
    return MethodDefinition(settings, thing, serves_all, {})


def _loaded(found: plugins.Outside, entry: MethodEntry) -> MethodDefinition:
    try:
        return entry.load()
    except (ImportError, AttributeError) as error:
        raise failed(found.where, error) from error


def _summary(found: plugins.Outside) -> str:
    if isinstance(found.thing, MethodEntry):
        return found.thing.summary
    definition = definition_of(found)
    return plugins.summary_of(definition.make if found.thing is definition else found.thing)
