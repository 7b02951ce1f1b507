"""Entries of the registries of methods and problems: a summary, the settings, and how one is built.

The tables themselves are `egrl.methods.METHODS` and `egrl.problems.PROBLEMS`; plug-ins define the same types.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from egrl.core.method import Context, Method
from hwsim.capabilities import HasObservation
from hwsim.problem import Problem

MOST_PROBABILITIES = 2**21
"""Most probabilities of one policy: a population keeps some twenty such tables, and drawing a batch copies them as
float64."""
MOST_PAIRS = 2**27
"""Most ordered pairs of edges that share a node: `ea` took 2 GB with 94 million of them."""


@dataclass(frozen=True)
class MethodEntry:
    """A method in the registry: its module, which is imported when the method is used, and a summary in one line.

    `definition` is a name of its module. A portfolio names its members, and says when each takes part.
    """

    module: str
    summary: str
    definition: str = "DEFINITION"
    members: Mapping[str, str] = field(default_factory=dict)

    def load(self) -> MethodDefinition:
        """Import the method."""
        found: MethodDefinition = getattr(importlib.import_module(self.module), self.definition)
        return found


@dataclass(frozen=True)
class MethodDefinition:
    """What a method's module exports as DEFINITION.

    Attributes:
        config: dataclass of its settings.
        make: (Context, config) -> Method; the context has one problem, unless `several`.
        serves: returns why the method cannot work on a problem, or None if it can.
        paper: the settings of `--preset paper`, as keys of the config.
        takes_policy: True if it can begin with a saved policy (`--init`).
        several: True if it trains one policy on several workloads at once (`egrl pretrain`).
        pretraining: settings that are others in `egrl pretrain` than in `egrl run`.
        group: the title under which comparisons list it apart from methods with less knowledge; "": none.
    """

    config: type
    make: Callable[[Context, Any], Method]
    serves: Callable[[Problem], str | None]
    paper: dict[str, Any]
    takes_policy: bool = False
    several: bool = False
    group: str = ""
    pretraining: Mapping[str, Any] = field(default_factory=dict)

    def build(self, context: Context, config: Any) -> Method:
        """The method for these problems. ValueError if there are several and it is made for one."""
        if len(context.problems) > 1 and not self.several:
            raise ValueError(f"problems: expected one, received {len(context.problems)}")
        return self.make(context, config)


def serves_all(problem: Problem) -> str | None:
    """`serves` of methods that work on every problem."""
    return None


def needs_probabilities(problem: Problem) -> str | None:
    """`serves` of methods that keep a probability per choice of every decision."""
    (nodes, heads), choices = problem.space.shape, problem.space.most_choices
    if nodes * heads * choices <= MOST_PROBABILITIES:
        return None
    return (
        f"it keeps one probability per choice, and {nodes} nodes x {heads} heads x {choices} choices are more than"
        f" {MOST_PROBABILITIES}"
    )


def needs_graph(problem: Problem) -> str | None:
    """`serves` for methods with policies that read a graph."""
    if not isinstance(problem, HasObservation):
        return "the problem has no graph to observe"
    degree = np.bincount(problem.observation.edge_index.ravel(), minlength=problem.space.shape[0])
    pairs = int((degree * degree).sum())
    if pairs > MOST_PAIRS:
        return (
            f"its networks join neighbours of neighbours, and {pairs} such pairs are more than {MOST_PAIRS}"
        )
    return needs_probabilities(problem)


@dataclass(frozen=True)
class ProblemDefinition:
    """How the command line builds a problem.

    Attributes:
        config: dataclass of its settings.
        build: (workload, chip, config) -> Problem; workload and chip are names, files or objects. InputError if one
            is wrong.
        chips: names of the chips that ship with it; the first is the default.
        describe: chip name -> what `egrl list chips` shows of it, including a line "summary".
        paper: the settings of `--preset paper`.
        workloads: what `egrl list workloads` shows: a "name" and a line "summary" per workload that ships. If several
            problems take the same workloads, only the first of the problems lists them.
        around: (chip, generator, name) -> a chip like it, drawn (`egrl pretrain --chips-around`); None: there are none.
    """

    config: type
    build: Callable[[Any, Any, Any], Problem]
    chips: Callable[[], Sequence[str]]
    describe: Callable[[str], dict[str, Any]]
    paper: dict[str, Any]
    workloads: Callable[[], list[dict[str, object]]] = list
    around: Callable[[Any, np.random.Generator, str], Any] | None = None


def _given(value: Any, load: Callable[[str], Any]) -> Any:
    """Load a name or a file; an object is returned unchanged."""
    return load(value) if isinstance(value, str) else value


def on_chips(
    problem: str,
    config: type,
    make: Callable[[Any, Any, Any], Problem],
    load: tuple[Callable[[str], Any], Callable[[str], Any]],
    chips: tuple[Callable[[], Sequence[str]], str],
    describe: tuple[Callable[[Any], str], Callable[[Any], dict[str, Any]]],
    paper: dict[str, Any] | None = None,
    workloads: Callable[[], list[dict[str, object]]] = list,
) -> ProblemDefinition:
    """A problem with chips that ship: `load` has the loaders of workload and chip, `chips` their names and the default.

    `describe` gives a line about a chip, and the other keys of `egrl list chips --json`.
    """
    load_workload, load_chip = load
    names, first = chips

    def described(name: str) -> dict[str, Any]:
        chip = load_chip(name)
        return {"summary": f"problem {problem}: {describe[0](chip)}", **describe[1](chip)}

    return ProblemDefinition(
        config,
        lambda workload, chip, settings: make(
            _given(workload, load_workload), _given(chip, load_chip), settings
        ),
        lambda: sorted(names(), key=lambda name: (name != first, name)),
        described,
        paper or {},
        workloads,
    )


def memories_of(chip: Any) -> dict[str, Any]:
    """The memories of a chip, as `egrl list chips --json` shows them."""
    return {"memories": [asdict(memory) for memory in chip.memories]}


@dataclass(frozen=True)
class Choice:
    """The method that `--method auto` takes, and the reason that is shown."""

    method: str
    reason: str


@dataclass(frozen=True)
class ProblemEntry:
    """A problem in the registry.

    Attributes:
        summary: one line about it.
        workload_file, chip_file: names of the files of a run folder from which a resumed run reads workload and chip;
            "": it takes what the user named.
        load: imports the problem.
        method: the default method.
        workloads: what --workload takes, in words.
        modelled: the method of `--method auto` if a model gives the costs; None: `method`.
        measured: the method of `--method auto` if an evaluator measures; None: `method`.
    """

    summary: str
    workload_file: str
    chip_file: str
    load: Callable[[], ProblemDefinition]
    method: str = "egrl"
    workloads: str = "a name or a file; `egrl list workloads` shows the names"
    modelled: Choice | None = None
    measured: Choice | None = None

    def choose(self, on_board: bool) -> Choice:
        """What `--method auto` takes."""
        better = self.measured if on_board else self.modelled
        return better or Choice(self.method, "it is the problem's own method")
