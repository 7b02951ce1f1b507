"""A config.toml run again, a run evaluated by its folder, figures and searches with what they need not be told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import metrics, outcome, refuse

from egrl.cli.main import main


def configured(path: Path, *flags: str) -> list[str]:
    return ["run", "--config", str(path / "config.toml"), "--quiet", *flags]


def test_a_config_file_runs_again_as_it_was(run, tmp_path):
    assert main(configured(run, "--out", str(tmp_path / "again"))) == 0
    assert outcome(tmp_path / "again") == outcome(run)
    assert (tmp_path / "again" / "config.toml").read_text() == (run / "config.toml").read_text()


def test_flags_and_settings_override_a_config_file(run, tmp_path):
    out = tmp_path / "other"
    argv = configured(run, "--out", str(out), "--evals", "30", "--seed", "7", "--set", "method.chains=3")
    assert main([*argv, "--set", "method.tau=200"]) == 0
    text = (out / "config.toml").read_text()
    for line in ("evals = 30", "seed = 7", "chains = 3", "tau = 200.0", "t0 = 0.005"):
        assert f"\n{line}\n" in text
    assert "gens" not in text
    assert metrics(out)[-1]["evaluations"] == "30"


def test_another_method_comes_with_its_own_settings(run, tmp_path):
    out = tmp_path / "random"
    assert (
        main(configured(run, "--out", str(out), "--method", "random", "--set", "problem.invalid=penalise"))
        == 0
    )
    text = (out / "config.toml").read_text()
    assert 'method = "random"' in text
    assert 'invalid = "penalise"' in text
    assert "chains" not in text


def test_a_wrong_config_file_is_refused_in_a_line(run, capsys, tmp_path):
    refuse(capsys, ["run", "--config", str(tmp_path / "none.toml")], "none.toml", "expected a config file")
    refuse(capsys, ["run", "--config", str(run / "chip.toml")], "chip.toml", "expected kind 'config'")
    refuse(capsys, ["run", "--resume", str(run), "--config", "c.toml"], "no other flags", "found --config")
    refuse(capsys, configured(run, "--preset", "paper"), "--preset paper: expected no --config")
    path = run / "config.toml"
    path.write_text(path.read_text().replace("chains", "chians"))
    refuse(capsys, configured(run), "config.toml: method: unknown key 'chians'; did you mean chains?")


def test_a_run_is_evaluated_by_its_folder(run, capsys):
    assert main(["evaluate", str(run), "--json"]) == 0
    by_folder = json.loads(capsys.readouterr().out)
    mapping = str(run / "best_mapping.json")
    assert main(["evaluate", "--workload", "alexnet", "--mapping", mapping, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == by_folder
    assert by_folder["speedup"] == json.loads((run / "summary.json").read_text())["best"]["speedup"]
    refuse(
        capsys,
        ["evaluate", str(run), "--workload", "alexnet"],
        "expected a run folder or --workload",
        "found",
    )
    refuse(capsys, ["evaluate"], "evaluate: expected a run folder or --workload, found neither")
    refuse(capsys, ["evaluate", "nowhere"], "nowhere: expected a run folder")


@pytest.mark.slow
def test_a_figure_of_one_run_is_written_into_its_folder(run, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["plot", "curves", str(run)]) == 0
    assert capsys.readouterr().err == f"egrl plot: {run / 'curves.png'}\n"
    assert (run / "curves.png").read_bytes()[:4] == b"\x89PNG"
    assert main(["plot", "curves", str(run), str(run)]) == 0
    assert (tmp_path / "curves.png").is_file()
    refuse(capsys, ["plot", "curves", "nowhere"], "nowhere")


@pytest.mark.parametrize("command", ["run", "compare", "pretrain", "transfer"])
def test_whoever_searches_takes_quiet_and_json(command, capsys):
    assert main([command, "--help"]) == 0
    text = capsys.readouterr().out
    assert "--quiet" in text
    assert "--json" in text


@pytest.mark.exhaustive
def test_a_quiet_comparison_prints_nothing(capsys, tmp_path):
    argv = ["compare", "--workload", "alexnet", "--methods", "random", "--seeds", "1", "--evals", "21"]
    assert main([*argv, "--out", str(tmp_path / "c"), "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert (tmp_path / "c" / "comparison.md").is_file()
    refuse(
        capsys,
        [*argv, "--seconds", "60", "--out", "x"],
        "expected one of --gens, --evals and --seconds, found --evals, --seconds",
    )
