"""DEAP's operators by name: selection, mating and mutation as `deap.tools` has them, or a function of the user's own.

A setting is MODULE:NAME, with arguments where it needs more than individuals: `deap.tools:selBest`,
`deap.tools:mutGaussian(mu=0, sigma=0.1, indpb=0.05)`. DEAP's conventions (Fortin et al., "DEAP: Evolutionary algorithms
made easy", JMLR 13, 2012):

    selection   select(individuals, k) -> k individuals, which have `.fitness`
    mating      mate(first, second) -> both, changed in place
    mutation    mutate(individual) -> (individual,), changed in place

Mating and mutation get a `Vector`, a sequence of float32 numbers: the weights of a network, or the priors of a
chromosome, decision after decision. Of mating the first child is kept. A chromosome keeps the temperatures of its first
parent.

DEAP draws from Python's global `random`. Each call has it, and numpy's, seeded by a generator of the run, and leaves
both as they were.
"""

from __future__ import annotations

import ast
import inspect
import random
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from deap import creator

from policies.weight_vector import Weights
from population.genome import Boltzmann, Genome, Individual, Network
from workloads.errors import InputError
from workloads.references import imported, is_reference, look_here

LIBRARY = "deap.tools"
"""Where operators may come from without being code of a stranger: it is installed with this package."""
FORM = "MODULE:NAME or MODULE:NAME(argument=value, …)"
CALLS = {"selection": ("individuals", "k"), "mating": ("first", "second"), "mutation": ("individual",)}
"""What is handed to each kind of operator; everything else is an argument in its setting."""


class Vector(array):
    """The numbers of a genome, as DEAP's operators change them: slices are copies, which numpy's are not."""

    fitness: Any = None


def parse(text: str) -> tuple[str, dict[str, Any]]:
    """MODULE:NAME and the arguments of an operator. ValueError where the text is not of that form."""
    name, bracket, inside = text.partition("(")
    name = name.strip()
    if not is_reference(name) or bool(bracket) != text.rstrip().endswith(")"):
        raise ValueError(f"expected {FORM}, received {text!r}")
    try:
        call = ast.parse(f"f({inside.rstrip()}" if bracket else "f()", mode="eval").body
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)) or call.args:
            raise ValueError(text)
        if not all(word.arg for word in call.keywords):
            raise ValueError(text)
        return name, {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        raise ValueError(f"expected {FORM}, received {text!r}") from None


def check_form(setting: str, text: str) -> None:
    """ValueError naming a setting whose text is neither empty nor of the form of an operator."""
    try:
        _ = text and parse(text)
    except ValueError as error:
        raise ValueError(f"{setting}: {error}") from None


def refers(text: str) -> bool:
    """Whether an operator is code from outside the package and its dependencies."""
    return bool(text) and text.partition("(")[0].partition(":")[0].strip() != LIBRARY


def check_selection(text: str, where: str) -> None:
    """Import a selection. InputError naming `where` if it cannot be called as one."""
    operator(text, "selection", where)


def check_mating(text: str, where: str) -> None:
    """Import a mating. InputError naming `where` if it cannot be called as one."""
    operator(text, "mating", where)


def check_mutation(text: str, where: str) -> None:
    """Import a mutation. InputError naming `where` if it cannot be called as one."""
    operator(text, "mutation", where)


def operator(text: str, kind: str, where: str) -> Callable[..., Any] | None:
    """An operator of a kind of `CALLS`, called with what is handed to it; None where no text names one.

    InputError naming `where` if it cannot be imported, or not be called so.
    """
    if not text:
        return None
    name, arguments = parse(text)
    look_here()
    found = imported(name, where)
    try:
        inspect.signature(found).bind(*CALLS[kind], **arguments)
    except (TypeError, ValueError) as error:
        taken = f"a function of ({', '.join(CALLS[kind])})"
        raise InputError(
            f"{where}: expected {taken} and of the arguments here, found {name}: {error}"
        ) from error
    return partial(found, **arguments)


@contextmanager
def global_random(rng: np.random.Generator) -> Iterator[None]:
    """Python's and numpy's global generators, seeded by `rng` inside and as before outside."""
    before, numpys = random.getstate(), np.random.get_state()  # noqa: NPY002
    seed = int(rng.integers(2**63))
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(before)
        np.random.set_state(numpys)  # noqa: NPY002


class Selection:
    """A named selection."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._select = operator(text, "selection", f"selection {text}")

    def __call__(
        self, members: Sequence[Individual], count: int, rng: np.random.Generator
    ) -> list[Individual]:
        """`count` individuals of those that ran; any, if none did. InputError if what it gives is not that."""
        assert self._select is not None
        ran = [m for m in members if np.isfinite(m.score)]
        if not ran:
            return [members[int(k)] for k in rng.integers(len(members), size=count)]
        with global_random(rng):
            chosen = list(self._select(ran, count))
        if len(chosen) != count or any(all(c is not m for m in ran) for c in chosen):
            raise InputError(
                f"selection {self._text}: expected {count} of the individuals, found {len(chosen)}"
            )
        return chosen


class Variation:
    """A named mating or mutation of genomes of one encoding."""

    def __init__(self, kind: str, text: str, rng: np.random.Generator) -> None:
        self._where, self._rng = f"{kind} {text}", rng
        self._change = operator(text, kind, self._where)

    def __call__(self, *genomes: Any) -> Any:
        """The first child of genomes, which stay as they are. InputError if it is none."""
        assert self._change is not None
        vectors = [_vector(genome) for genome in genomes]
        with global_random(self._rng):
            children = self._change(*vectors)
        if not isinstance(children, tuple) or not children:
            raise InputError(
                f"{self._where}: expected a tuple of individuals, found {type(children).__name__}"
            )
        numbers = np.asarray(children[0], dtype=np.float32)
        if numbers.shape != (len(vectors[0]),) or not np.isfinite(numbers).all():
            raise InputError(f"{self._where}: expected {len(vectors[0])} finite numbers, found others")
        return _genome(numbers, genomes[0])


def _vector(genome: Genome) -> Vector:
    numbers = genome.weights if isinstance(genome, Network) else genome.prior
    vector = Vector("f", np.ascontiguousarray(numbers, dtype=np.float32).tobytes())
    vector.fitness = creator.MaximisedFitness()
    return vector


def _genome(numbers: Weights, like: Genome) -> Genome:
    """A genome of the encoding of another, with its own array."""
    if isinstance(like, Network):
        return Network(numbers.copy())
    return Boltzmann(numbers.reshape(like.prior.shape).copy(), like.temperature)
