"""A config.toml run again: its options and settings, as those of a new run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from egrl.core import typed_tables
from egrl.core.budget import BUDGETS, REQUESTS
from egrl.measure.config import EvaluatorConfig
from egrl.methods import find_method
from egrl.problems import find_problem
from egrl.runs import config, requests
from egrl.runs.config import RunOptions
from egrl.runs.resume import check_named, check_settings
from workloads.files import read_text


def options_of_file(
    file: str, given: Mapping[str, Any], settings: Sequence[str]
) -> tuple[dict[str, Any], list[str]]:
    """The options and the `--set` settings of a config.toml, those that are `given` instead of its own.

    Another problem or method than the file's comes with its own defaults, and any budget replaces the file's.
    InputError where the file is none, something in it is wrong, or it names code that is not `given`, too.
    """
    tables = config.read_toml(read_text(file, "a config file (config.toml of a run)"), file)
    old = typed_tables.build(RunOptions, tables["run"], f"{file}: run")
    options = {key: value for key, value in asdict(old).items() if value is not None}
    if any(key in given for key in (*BUDGETS, REQUESTS)):
        options = {key: value for key, value in options.items() if key not in BUDGETS}
    if given.get("executor") == "local":  # the address was the old executor's
        options["ray_address"] = ""
    if given.get("problem", old.problem) != old.problem:
        options |= {"chip": "", "method": ""}
    options |= given
    again = ["egrl", "run", "--config", file, *(word for setting in settings for word in ("--set", setting))]
    check_named(typed_tables.build(RunOptions, options, "options"), given, file, again)
    entry = find_problem(options["problem"])
    options["method"] = options["method"] or entry.method
    kinds = {
        "problem": (entry.load().config, options["problem"] == old.problem),
        "method": (find_method(options["method"]).config, options["method"] == old.method),
        "evaluator": (EvaluatorConfig, bool(options["evaluator"])),
    }
    kept: list[str] = []
    for name, (kind, used) in kinds.items():
        if used:
            built: Any = typed_tables.build(kind, tables[name], f"{file}: {name}")
            if name == "method":
                check_settings(built, [s for s in settings if s.startswith("method.")], file, again)
            values = typed_tables.dotted_keys(typed_tables.plain_table(built))
            if name == "evaluator" and REQUESTS in given:
                values = {key: value for key, value in values.items() if key not in requests.COUNTED}
            kept += [f"{name}.{key}={_toml(value)}" for key, value in values.items()]
    return {key: value for key, value in options.items() if value != ""}, [*kept, *settings]


def _toml(value: Any) -> str:
    """A value as TOML has it: JSON's texts, numbers, lists and switches are TOML's."""
    return json.dumps(value, ensure_ascii=False)
