"""The typed configuration and its messages."""

from __future__ import annotations

import dataclasses
import inspect
from dataclasses import dataclass, field
from typing import Annotated, Literal

import pytest
from annotated_types import Ge

from egrl import api
from egrl.core import typed_tables
from egrl.core.contracts import Budget
from egrl.methods.named import EgrlConfig
from egrl.problems import PROBLEMS
from egrl.runs import config
from egrl.runs.config import RunConfig, RunOptions
from workloads.errors import InputError


@dataclass(frozen=True)
class Inner:
    alpha: float = 0.05
    width: Annotated[int, Ge(1)] = 8


@dataclass(frozen=True)
class Empty:
    pass


@dataclass(frozen=True)
class Outer:
    inner: Inner = field(default_factory=Inner)
    other: Inner = field(default_factory=lambda: Inner(0.5, 3))
    mode: Literal["a", "b"] = "a"
    beta: float = 1.0


def test_nested_keys_are_reached_in_full_and_keep_their_neighbours_defaults():
    built = typed_tables.build(Outer, {"inner.alpha": 0.1, "other": {"width": 9}}, "--set method")
    assert built == Outer(inner=Inner(alpha=0.1), other=Inner(0.5, 9))


def test_a_nested_key_that_is_unique_may_be_named_alone():
    @dataclass(frozen=True)
    class Single:
        inner: Inner = field(default_factory=Inner)

    assert typed_tables.build(Single, {"alpha": 0.2}, "--set method") == Single(Inner(alpha=0.2))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"gamma": 1}, r"--set method: unknown key 'gamma'"),
        ({"bta": 1}, r"unknown key 'bta'; did you mean beta\?"),
        ({"alpha": 1}, r"'alpha' is ambiguous: expected one of inner\.alpha, other\.alpha"),
        ({"inner.width": 0}, r"inner\.width: expected at least 1, found 0"),
        ({"inner.width": "x"}, r"inner\.width: .*valid integer.*, found 'x'"),
        ({"beta": float("nan")}, r"beta: .*finite number, found nan"),
        ({"mode": "c"}, r"mode: .*'a' or 'b', found 'c'"),
        ({"inner": 3}, r"unknown key 'inner'"),
    ],
)
def test_a_wrong_setting_is_named_with_what_was_expected_and_found(table, message):
    with pytest.raises(InputError, match=message):
        typed_tables.build(Outer, table, "--set method")


@pytest.mark.parametrize("setting", ["alpha=1", "method.alpha", "other.alpha=1", "method.=1", ""])
def test_a_malformed_set_is_refused(setting):
    with pytest.raises(InputError, match=r"expected problem\.KEY=VALUE or method\.KEY=VALUE or evaluator"):
        typed_tables.parse_set([setting])


def test_a_table_that_a_command_does_not_use_is_refused():
    assert typed_tables.parse_set(["problem.x=1"], "problem") == {"problem": {"x": 1}}
    with pytest.raises(InputError, match=r"--set method\.x=1: expected problem\.KEY=VALUE$"):
        typed_tables.parse_set(["method.x=1"], "problem")


def test_a_message_lists_few_of_many_keys():
    with pytest.raises(
        InputError, match=r"expected one of \S+, \S+, \S+, \S+ or \d+ more .*config\.toml"
    ) as caught:
        typed_tables.build(EgrlConfig, {"frobnicate": 1}, "--set method")
    assert len(str(caught.value)) < 250
    with pytest.raises(InputError, match=r"expected one of alpha, width$"):
        typed_tables.build(Inner, {"frobnicate": 1}, "--set method")
    with pytest.raises(InputError, match="there is nothing to set"):
        typed_tables.build(Empty, {"frobnicate": 1}, "--set method")


def test_the_default_method_of_each_problem_is_stated_wherever_a_method_is_asked_for():
    others: dict[str, list[str]] = {}
    for name, entry in PROBLEMS.items():
        if entry.method != config.DEFAULT_METHOD:
            others.setdefault(entry.method, []).append(name)
    stated = "; ".join(f"{', '.join(names)}: {method}" for method, names in others.items())
    assert stated in typed_tables.meanings(RunOptions)["method"]
    assert stated in " ".join(inspect.getdoc(api.search).split())


def test_search_takes_every_option_of_a_run_each_stated_with_its_meaning():
    text = " ".join(inspect.getdoc(api.search).split())
    arguments = set(inspect.signature(api.search).parameters) - {"options"}
    options = {entry.name for entry in dataclasses.fields(RunOptions)}
    assert options - arguments == api.OPTIONS
    assert set(config.SEARCH_OPTIONS) < api.OPTIONS
    assert all(typed_tables.meanings(RunOptions)[name] for name in options)
    assert all(f" {name}: " in text for name in arguments)
    with pytest.raises(InputError, match=r"option: .*seed"):
        api.search("alexnet", sead=1)
    with pytest.raises(InputError, match=r"^--seed: expected at least 0, found -1$"):
        api.search("alexnet", seed=-1)


def test_values_are_toml_or_plain_words():
    parsed = typed_tables.parse_set(
        ["method.a=1", "method.b=0.5", "method.c=penalise", "problem.d=[1, 2]", "method.e=true"]
    )
    assert parsed["method"] == {"a": 1, "b": 0.5, "c": "penalise", "e": True}
    assert parsed["problem"] == {"d": [1, 2]}
    assert parsed["evaluator"] == {}


def test_the_config_file_gives_back_the_config():
    resolved = RunConfig(RunOptions(workload="bert", gens=3, seed=7), Inner(), Outer(inner=Inner(alpha=0.25)))
    tables = config.read_toml(config.to_toml(resolved), "config.toml")
    assert typed_tables.build(RunOptions, tables["run"], "run") == resolved.run
    assert typed_tables.build(Inner, tables["problem"], "problem") == resolved.problem
    assert typed_tables.build(Outer, tables["method"], "method") == resolved.method


@pytest.mark.parametrize(
    "text", ["x = ", 'kind = "config"\nversion = 99', "", 'kind = "config"\nversion = 1\nrun = 3']
)
def test_a_config_file_that_is_none_is_refused_in_one_line(text):
    with pytest.raises(InputError, match=r"config\.toml") as caught:
        config.read_toml(text, "config.toml")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "evaluations", "seconds"),
    [({}, 4200, None), ({"gens": 7}, 147, None), ({"evals": 62}, 62, None), ({"seconds": 15.0}, None, 15.0)],
)
def test_a_budget_is_evaluations_or_seconds(options, evaluations, seconds):
    assert Budget.of(RunOptions(**options).budget()) == Budget(evaluations, seconds)


@pytest.mark.parametrize(
    "options",
    [{"gens": 0}, {"evals": 0}, {"seconds": -1.0}, {"seconds": float("nan")}, {"gens": 1, "evals": 21}],
)
def test_a_budget_that_holds_nothing_is_refused(options):
    with pytest.raises(InputError, match="expected"):
        Budget.of(RunOptions(**options).budget())
