"""The examples in the docstrings of what people call run, and print what stands there."""

from __future__ import annotations

import doctest
import importlib

import pytest

from egrl.methods import METHODS

CALLED = (
    "egrl.api:search",
    "egrl.ask_tell:Search",
    "egrl.core.mapping_file:mapping_of",
    "egrl.exploration.explore:explore",
    "workloads.load:load",
)
CONFIGS = [entry.load().config for entry in METHODS.values()]


@pytest.mark.slow
@pytest.mark.parametrize(
    "where", [*CALLED, *(f"{config.__module__}:{config.__name__}" for config in CONFIGS)]
)
def test_the_example_of_a_docstring_runs_and_prints_what_stands_there(where: str) -> None:
    module, name = where.split(":")
    documented = getattr(importlib.import_module(module), name)
    (example,) = doctest.DocTestFinder(recurse=False).find(documented, name, globs={})
    assert len(example.examples) >= 2
    said: list[str] = []
    assert doctest.DocTestRunner().run(example, out=said.append).failed == 0, "".join(said)
