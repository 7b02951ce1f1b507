"""Comparing methods: the numbers of the table, and the command that goes on where it was."""

from __future__ import annotations

import csv
import dataclasses
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from clocks import Ticking
from commands import refuse, run_here
from filelock import FileLock
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from egrl.cli.main import main
from egrl.compare import report
from egrl.compare import statistics as comparison
from egrl.compare.report import STOPPING, Job, plan
from egrl.compare.statistics import Run, paired_interval, rows, run_of
from egrl.methods import find_method
from egrl_suite.peers import GROUP
from workloads.errors import InputError

EVALS = 42


def run_(method: str, seed: int, speedup: float, **changes: Any) -> Run:
    values = {
        "cost": 1 / speedup if speedup else None,
        "source": method if speedup else None,
        "deployable": None,
        "seconds": 2.0,
        "evaluations": EVALS,
    }
    return Run(method, seed, speedup, **{**values, **changes})


# ---- the numbers


@given(st.lists(st.tuples(st.floats(0.5, 2), st.floats(0.5, 2)), min_size=2, max_size=12))
def test_the_interval_is_that_of_the_paired_t_test(pairs):
    ours = {seed: a for seed, (a, _) in enumerate(pairs)}
    theirs = {seed: b for seed, (_, b) in enumerate(pairs)}
    found = paired_interval(ours, theirs)
    difference = np.array([a - b for a, b in pairs])
    if np.ptp(difference) < 1e-6:
        return
    expected = stats.ttest_rel(list(ours.values()), list(theirs.values())).confidence_interval(0.95)
    np.testing.assert_allclose([found.low, found.high], expected, rtol=1e-9, atol=1e-12)
    assert found.low <= found.mean <= found.high


def test_the_interval_pairs_seeds_and_needs_two_of_them():
    assert paired_interval({0: 1.0, 2: 3.0}, {2: 1.0, 3: 9.0}) is None
    found = paired_interval({0: 1.5, 1: 2.5, 7: 100.0}, {1: 2.0, 0: 1.0})
    assert (found.mean, found.low, found.high) == (0.5, 0.5, 0.5)


def test_a_row_sums_up_the_runs_of_a_method():
    runs = [
        run_("egrl", 0, 2.0, source="network", deployable=1.5),
        run_("egrl", 1, 1.0, source="network", deployable=1.1, seconds=4.0),
        run_("random", 0, 0.0),
        run_("random", 1, 1.0, source="start"),
    ]
    egrl, random = rows(runs, ["random", "egrl"], best_known=0.4, bound=0.25)[::-1]
    assert (egrl.method, egrl.runs, egrl.mean, egrl.best, egrl.seconds) == ("egrl", 2, 1.5, 2.0, 3.0)
    assert egrl.deviation == pytest.approx(2**-0.5)
    assert egrl.champions == {"network": 2}
    assert egrl.deployable == pytest.approx(1.3)
    assert egrl.of_best_known == pytest.approx((0.8 + 0.4) / 2)
    assert egrl.of_bound == pytest.approx((0.5 + 0.25) / 2)
    assert egrl.against is None
    assert random.against.mean == pytest.approx(-1.0)
    assert random.champions == {"start": 1}
    assert random.of_bound == pytest.approx(0.125)
    assert random.deployable is None


def test_what_one_run_cannot_tell_is_unknown():
    found = rows([run_("a", 0, 1.2), run_("b", 0, 1.3)], ["a", "b"], None, None)
    assert [(r.method, r.deviation, r.against, r.of_best_known, r.of_bound) for r in found] == [
        ("a", None, None, None, None),
        ("b", None, None, None, None),
    ]


def test_the_reference_is_egrl_or_the_first_method():
    assert comparison.reference_of(["random", "egrl"]) == "egrl"
    assert comparison.reference_of(["random", "ea"]) == "random"


def test_a_run_counts_once():
    with pytest.raises(ValueError, match="received a seed 0 twice"):
        rows([run_("a", 0, 1.0), run_("a", 0, 1.0)], ["a"], None, None)


def test_the_best_known_cost_is_the_least_of_the_runs():
    assert comparison.best_known_cost([run_("a", 0, 1.0), run_("b", 0, 2.0), run_("b", 1, 0.0)]) == 0.5
    assert comparison.best_known_cost([run_("a", 0, 0.0)]) is None
    assert comparison.best_known_cost([run_("a", 0, 0.0)], 3.0) == 3.0
    assert comparison.best_known_cost([run_("a", 0, 0.5)], 3.0) == 2.0
    assert comparison.best_known_cost([run_("a", 0, 0.5)], 1.5) == 1.5


def test_a_policys_last_known_speedup_counts():
    summary = {"method": "ea", "seed": 3, "seconds": 1.0, "evaluations": 42, "best": None}
    assert run_of(summary, [1.0, 1.2, np.nan]).deployable == 1.2
    assert run_of(summary, [np.nan]).deployable is None
    found = run_of(summary, None)
    assert (found.speedup, found.cost, found.source, found.deployable) == (0.0, None, None, None)


def test_the_table_shows_figures_and_a_dash_for_what_is_unknown():
    runs = [run_("egrl", 0, 2.0, deployable=1.5), run_("random", 0, 0.0)]
    entry = {
        **{"workload": "w", "problem": "nnpi", "chip": "c", "unit": "s", "baseline": 1.0},
        **{"best_known": 0.5, "bound": None, "reference": "egrl"},
        "rows": [dataclasses.asdict(row) for row in rows(runs, ["egrl", "random"], 0.5, None)],
        "failed": ["w random seed 1 failed: no memory"],
    }
    text = comparison.markdown({"evaluations": 42, "seeds": 1, "start": "cold", "workloads": [entry]})
    cells = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line[:1] == "|"
    ]
    spent = ["42", "0", "2.0", "0.0"]
    assert cells[2] == ["egrl", "1", "2.0000", "-", "2.0000", "-", "100.00%", "-", "1.5000", *spent, "egrl 1"]
    assert cells[3] == ["random", "1", "0.0000", "-", "0.0000", "-", "0.00%", "-", "-", *spent, "-"]
    assert "42 evaluations, 1 seed, start cold" in text
    assert "- w random seed 1 failed: no memory" in text


def test_names_are_no_markup_in_what_people_read():
    name = "a<b>&`c`|[d](e)*f*_g_ h_i"
    entry = {
        **{"workload": name, "problem": "nnpi", "chip": "c", "unit": "s", "baseline": 1.0},
        **{"best_known": 0.5, "bound": None, "reference": "egrl", "rows": [], "failed": ["no <memory>"]},
    }
    text = comparison.markdown({"evaluations": 42, "seeds": 1, "start": "cold", "workloads": [entry]})
    assert text.startswith(r"## a\<b\>\&\`c\`\|\[d\](e)\*f\*\_g\_ h_i on c")
    assert text.endswith("- no \\<memory\\>\n")


def test_black_box_optimisers_stand_in_a_table_of_their_own():
    names = ["egrl_suite.peers:PYMOO", "egrl", "random"]
    groups = {name: find_method(name).group for name in names}
    assert groups == {"egrl_suite.peers:PYMOO": GROUP, "egrl": "", "random": ""}
    found = rows([run_(name, 0, 1.0) for name in names], names, None, None, groups)
    entry = {
        **{"workload": "w", "problem": "nnpi", "chip": "c", "unit": "s", "baseline": 1.0},
        **{"best_known": 0.5, "bound": None, "reference": "egrl"},
        "rows": [dataclasses.asdict(row) for row in found],
        "failed": [],
    }
    text = comparison.markdown({"evaluations": 42, "seeds": 1, "start": "cold", "workloads": [entry]})
    listed = [
        [line.split()[1] for line in part.splitlines() if line.startswith("| ")][2:]
        for part in text.split(f"\n{GROUP}:\n\n")
    ]
    assert listed == [["egrl", "random"], ["egrl_suite.peers:PYMOO"]]


# ---- the command


def arguments(out: Path, *more: str, methods: str = "annealing,random", evals: int = EVALS) -> list[str]:
    return [
        "compare", "--workload", "alexnet", "--methods", methods, "--seeds", "2", "--evals", str(evals),
        "--jobs", "2", "--out", str(out), *more,
    ]  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished comparison; copy it before changing it."""
    out = tmp_path_factory.mktemp("comparison") / "c"
    assert main(arguments(out)) == 0
    return out


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "c"))


def metrics(run: Path) -> list[dict[str, str]]:
    with open(run / "metrics.csv") as stream:
        return [{k: v for k, v in row.items() if not k.endswith("seconds")} for row in csv.DictReader(stream)]


def stamps(out: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in out.rglob("summary.json")}


@pytest.mark.slow
def test_every_run_is_an_ordinary_run_and_the_table_says_what_they_reached(finished, tmp_path):
    document = json.loads((finished / "comparison.json").read_text())
    assert (document["kind"], document["version"], document["start"]) == ("comparison", 1, "compiler")
    (entry,) = document["workloads"]
    assert [row["method"] for row in entry["rows"]] == ["annealing", "random"]
    assert entry["failed"] == []
    for row in entry["rows"]:
        folders = [finished / "alexnet" / f"{row['method']}-s{seed}" for seed in range(2)]
        summaries = [json.loads((folder / "summary.json").read_text()) for folder in folders]
        assert [s["evaluations"] for s in summaries] == [EVALS, EVALS]
        assert row["mean"] == pytest.approx(np.mean([s["best"]["speedup"] for s in summaries]))
        assert sum(row["champions"].values()) == row["runs"] == 2
    costs = [run["cost"] for run in entry["runs"]]
    assert entry["best_known"] < min(costs)  # what ships for AlexNet is proven to be the best
    assert entry["best_known"] == pytest.approx(entry["bound"], rel=1e-6)
    assert max(row["of_best_known"] for row in entry["rows"]) <= 1
    text = (finished / "comparison.md").read_text()
    assert "| annealing |" in text
    assert "against annealing (95%)" in text
    assert (finished / "curves-alexnet.png").read_bytes()[:4] == b"\x89PNG"
    alone = tmp_path / "alone"
    argv = ["run", "--workload", "alexnet", "--method", "annealing", "--seed", "1", "--evals", str(EVALS)]
    assert main([*argv, "--threads", "1", "--quiet", "--out", str(alone)]) == 0
    assert metrics(alone) == metrics(finished / "alexnet" / "annealing-s1")


@pytest.mark.slow
def test_finished_runs_are_not_run_again(copied, capsys):
    before, text = stamps(copied), (copied / "comparison.md").read_text()
    (copied / "comparison.md").unlink()
    assert main(arguments(copied)) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out == text == (copied / "comparison.md").read_text()
    assert stamps(copied) == before


@pytest.mark.exhaustive
def test_runs_may_be_given_the_same_seconds_and_go_on_with_more(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(report, "run_all", run_here)
    monkeypatch.setattr("egrl.core.loop.clock", Ticking().monotonic)

    def argv(seconds: float) -> list[str]:
        methods = ("--methods", "random,annealing", "--seeds", "1", "--seconds", str(seconds))
        return ["compare", "--workload", "alexnet", *methods, "--out", str(tmp_path / "c")]

    assert main(argv(30.5)) == 0
    assert "30.5 s of searching" in capsys.readouterr().out
    assert main(argv(30.5)) == 0
    assert capsys.readouterr().err == ""
    before = {run: len(metrics(run)) for run in (tmp_path / "c" / "alexnet").iterdir()}
    assert main(argv(90.5)) == 0
    assert len(capsys.readouterr().err.splitlines()) == 2
    assert all(len(metrics(run)) > count for run, count in before.items())
    refuse(capsys, argv(50.5), "run.seconds", "--seconds 50.5", "90.5")


@pytest.mark.slow
def test_json_is_one_document_on_stdout(copied, capsys):
    assert main(arguments(copied, "--json")) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((copied / "comparison.json").read_text())


@pytest.mark.slow
def test_it_goes_on_with_what_is_missing_and_with_a_larger_budget(copied, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(report, "run_all", run_here)
    shutil.rmtree(copied / "alexnet" / "random-s1")
    (copied / "alexnet" / "annealing-s0" / "summary.json").unlink()
    assert main(arguments(copied, evals=63)) == 0
    assert len(capsys.readouterr().err.splitlines()) == 4
    for run in (copied / "alexnet").iterdir():
        assert len(metrics(run)) == 3
    argv = [
        "run",
        "--workload",
        "alexnet",
        "--method",
        "annealing",
        "--evals",
        "63",
        "--threads",
        "1",
        "--quiet",
    ]
    assert main([*argv, "--out", str(tmp_path / "alone")]) == 0
    assert metrics(tmp_path / "alone") == metrics(copied / "alexnet" / "annealing-s0")


@pytest.mark.slow
def test_a_folder_from_before_there_was_an_option_is_no_other_configuration(copied, capsys):
    for run in (copied / "alexnet").iterdir():
        config = (run / "config.toml").read_text()
        for line in ('baseline = ""\n', *(["t0 = 0.005\n"] if run.name.startswith("annealing") else [])):
            assert line in config
            config = config.replace(line, "")
        (run / "config.toml").write_text(config)
    assert main(arguments(copied)) == 0
    best = str(copied / "alexnet" / "annealing-s0" / "best_mapping.json")
    capsys.readouterr()
    refuse(capsys, arguments(copied, "--baseline", best), "run.baseline", best, "another --out")
    refuse(capsys, arguments(copied, "--set", "annealing.t0=0.5"), "method.t0", "0.5", "another --out")


def test_a_changed_configuration_is_refused(copied, capsys):
    capsys.readouterr()
    refuse(
        capsys, arguments(copied, "--set", "annealing.t0=0.5"), "method.t0", "0.5", "0.005", "another --out"
    )
    refuse(capsys, arguments(copied, "--start", "cold"), "run.start", "'cold'", "'compiler'")
    refuse(capsys, arguments(copied, "--set", "problem.invalid=penalise"), "problem.invalid")
    refuse(capsys, arguments(copied, evals=21), "run.evals", "--evals 21", "42")
    summary = copied / "alexnet" / "random-s0" / "summary.json"
    summary.write_text(summary.read_text().replace('"fingerprint": "', '"fingerprint": "00'))
    refuse(capsys, arguments(copied), "random-s0", "another simulator, chip or workload")


def test_why_a_run_failed_is_the_last_line_that_it_said(tmp_path):
    said: list[str] = []
    failures, interrupted = report.run_all([Job("alone", tmp_path, ("rum",))], 1, said.append)
    assert not interrupted
    assert failures[tmp_path].startswith("alone failed: egrl: expected one of run, ")
    assert said == [f"1/1 {failures[tmp_path]}"]


@pytest.mark.exhaustive
def test_a_failed_run_is_reported_and_ends_no_other(copied, capsys):
    broken = copied / "alexnet" / "annealing-s0"
    (broken / "summary.json").unlink()
    for path in (broken / "checkpoint").iterdir():
        path.write_bytes(b"not a checkpoint")
    shutil.rmtree(copied / "alexnet" / "random-s0")
    untouched = stamps(copied)
    assert main(arguments(copied)) == 1
    assert untouched.items() < stamps(copied).items()
    captured = capsys.readouterr()
    assert "alexnet annealing seed 0 failed: " in captured.err
    assert (
        captured.err.splitlines()[-1] == "egrl: error: 1 of 4 runs failed; the same command tries them again"
    )
    (entry,) = json.loads((copied / "comparison.json").read_text())["workloads"]
    assert [(row["method"], row["runs"]) for row in entry["rows"]] == [("annealing", 1), ("random", 2)]
    assert entry["failed"][0].startswith("alexnet annealing seed 0 failed: ")
    assert entry["failed"][0] in (copied / "comparison.md").read_text()


@pytest.mark.slow
def test_a_setting_reaches_the_method_it_names_only(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "run_all", run_here)
    argv = arguments(tmp_path, "--set", "annealing.t0=0.5", "--seeds", "1", evals=21)
    assert main(argv) == 0
    assert "t0 = 0.5" in (tmp_path / "alexnet" / "annealing-s0" / "config.toml").read_text()
    (entry,) = json.loads((tmp_path / "comparison.json").read_text())["workloads"]
    assert [(row["against"], row["deviation"]) for row in entry["rows"]] == [(None, None)] * 2


def test_threads_and_a_start_policy_reach_the_runs_and_a_policy_is_known_by_its_content(tmp_path):
    small = ["--set", "method.network.width=8", "--set", "method.network.depth=2"]
    argv = ["run", "--workload", "alexnet", "--method", "es", "--gens", "1", "--quiet", *small]
    for seed in ("0", "1"):
        assert main([*argv, "--seed", seed, "--out", str(tmp_path / seed)]) == 0
    one, other = (tmp_path / seed / "policies" / "generation-00000001.safetensors" for seed in "01")
    moved = shutil.copy(one, tmp_path / "moved.safetensors")

    def jobs(init: Path) -> Sequence[Job]:
        options = {"problem": "nnpi", "evals": 21, "chip": "", "start": "cold", "preset": ""}
        options |= {"settings": [word.replace("method", "es") for word in small[1::2]]}
        options |= {"threads": 2, "init": str(init)}
        return plan(["alexnet"], ["es"], 1, tmp_path / "c", options)[0].jobs

    [job] = jobs(one)
    assert main(list(job.argv)) == 0
    kept = (job.path / "init_policy.safetensors").read_bytes()
    assert kept == one.read_bytes()
    assert "threads = 2" in (job.path / "config.toml").read_text()
    assert [job.argv for job in jobs(moved)] == [()]
    with pytest.raises(InputError, match=r"run\.init: expected"):
        jobs(other)


def test_wrong_input_is_refused_before_anything_runs(tmp_path, capsys):
    out = tmp_path / "c"
    refuse(capsys, arguments(out, methods="annealing,annealing"), "--methods: expected different names")
    refuse(capsys, arguments(out, methods="annealing,"), "--methods: expected names with single commas")
    refuse(capsys, arguments(out, methods="anealing"), "--method: expected one of", "'anealing'")
    refuse(capsys, arguments(out, "--set", "egrl.alpha=1"), "--set egrl.alpha=1", "annealing, random")
    refuse(capsys, arguments(out, "--set", "random.t0=1"), "unknown key 't0'")
    refuse(capsys, arguments(out, evals=0), "--evals: expected at least 1, found 0")
    refuse(capsys, arguments(out, "--workload", "alexnet,x/alexnet.json"), "different names")
    refuse(capsys, arguments(out, "--workload", "nonsense"), "nonsense")
    assert not out.exists()
    pair = "mobilenet_v2:width=1.4,mobilenet_v2:width=1.25"
    refuse(capsys, arguments(out, "--workload", pair, "--set", "random.t0=1"), "unknown key 't0'")
    out.write_text("")
    refuse(capsys, arguments(out), "--out")


@pytest.mark.exhaustive
def test_ctrl_c_lets_the_runs_save_and_says_how_to_go_on(tmp_path):
    argv = [sys.executable, "-m", "egrl", *arguments(tmp_path / "c", methods="random", evals=2_100_000_000)]
    process = subprocess.Popen(argv, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    runs = [tmp_path / "c" / "alexnet" / f"random-s{seed}" for seed in range(2)]
    while not all((run / "metrics.csv").exists() for run in runs):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert (process.returncode, out) == (130, "")
    assert err.splitlines() == [f"egrl compare: {STOPPING}", "egrl: interrupted; the same command goes on"]
    for run in runs:
        summary = json.loads((run / "summary.json").read_text())
        assert not summary["complete"]
        with FileLock(run / ".lock", timeout=0):
            assert summary["generations"] == int(metrics(run)[-1]["evaluations"]) // 21


@pytest.mark.exhaustive
def test_a_comparison_with_a_network_of_ones_own_goes_on(tmp_path, monkeypatch, capsys):
    shutil.copy(
        Path(__file__).parents[3] / "examples" / "network" / "own_network.py", tmp_path / "my_network.py"
    )
    monkeypatch.chdir(tmp_path)
    for evals in (21, 42):
        argv = ["compare", "--workload", "alexnet", "--methods", "es", "--seeds", "1", "--evals", str(evals)]
        argv += ["--set", "es.network=my_network:Transformer", "--set", "es.network.width=8", "--out", "c"]
        assert main([*argv, "--quiet", "--json"]) == 0, capsys.readouterr().err
        assert json.loads(capsys.readouterr().out)
    summary = json.loads(Path("c", "alexnet", "es-s0", "summary.json").read_text(encoding="utf-8"))
    assert summary["evaluations"] == 42
