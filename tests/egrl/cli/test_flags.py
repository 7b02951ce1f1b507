"""Flags that several commands share mean the same in each; the log has what is said, with its time."""

from __future__ import annotations

import json
import logging
import re

import click
import pytest
from commands import run_here

from egrl.cli.main import cli, main

SEARCHES = ("run", "compare", "pretrain", "transfer", "reproduce")
BUDGETED = ("run", "compare", "pretrain")
AT_ONCE = ("compare", "reproduce")


def flags_of(name: str) -> dict[str, click.Option]:
    with click.Context(cli, info_name="egrl") as outer:
        command = cli.get_command(outer, name)
        assert command is not None
        return {param.opts[0]: param for param in command.params if isinstance(param, click.Option)}


def meaning(option: click.Option) -> str:
    """Of a flag, up to whose budget it is, and what it is by default."""
    return re.sub(r" (of each run|over all workloads)| ?[\[(][^\])]*[\])]", "", option.help or "")


@pytest.mark.parametrize("name", SEARCHES)
def test_a_flag_means_the_same_in_every_command_that_searches(name):
    run, own = flags_of("run"), flags_of(name)
    shared = [
        "--workers",
        "--quiet",
        "--log",
        *(["--gens", "--evals", "--seconds"] if name in BUDGETED else []),
    ]
    for flag in shared:
        assert meaning(own[flag]) == meaning(run[flag]), flag
    assert own["--json"].is_flag
    assert ("--jobs" in own) == (name in AT_ONCE)


def test_the_log_has_what_was_said_and_the_error_also_where_a_command_is_quiet(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run = ["run", "--workload", "alexnet", "--method", "annealing", "--quiet", "--log", "run.log"]
    assert main([*run, "--gens", "2", "--out", "r"]) == 0
    assert main([*run, "--gens", "2", "--out", "r"]) == 2
    assert capsys.readouterr().out == ""
    lines = (tmp_path / "run.log").read_text().splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (INFO|ERROR) ", line) for line in lines)
    said = [line.split(maxsplit=2)[2] for line in lines]
    assert [re.sub(r"[\d.]+ s, best [\d.]+x", "…", line) for line in said[:2]] == [
        "INFO alexnet: generation 1, 21 evaluations, …",
        "INFO alexnet: generation 2, 42 evaluations, …",
    ]
    assert said[-1].startswith("ERROR --out r: expected a new or empty folder")
    assert not [each for each in logging.getLogger("egrl").handlers if isinstance(each, logging.FileHandler)]


def test_a_program_gets_the_log_by_the_standard_library(caplog):
    import egrl

    with caplog.at_level(logging.INFO, logger="egrl"):
        egrl.search("alexnet", method="random", gens=1)
    assert [record.name for record in caplog.records] == ["egrl"]
    assert "generation 1, 21 evaluations" in caplog.text


@pytest.mark.exhaustive
def test_a_comparison_takes_generations_and_hands_workers_to_its_runs(tmp_path, monkeypatch, capsys):
    jobs = []
    monkeypatch.setattr(
        "egrl.compare.report.run_all",
        lambda given, at_once, say: jobs.extend(given) or run_here(given, at_once, say),
    )
    argv = [
        "compare",
        "--workload",
        "alexnet",
        "--methods",
        "random",
        "--seeds",
        "1",
        "--out",
        str(tmp_path / "c"),
    ]
    assert main([*argv, "--gens", "2", "--workers", "2", "--log", str(tmp_path / "log"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["evaluations"] == 42
    assert "INFO 1/1 alexnet random seed 0" in (tmp_path / "log").read_text()
    (job,) = jobs
    assert job.argv[job.argv.index("--workers") + 1] == "2"
    assert "\nworkers = 2\n" in (job.path / "config.toml").read_text()
