"""Forty and more mistakes that are made at the command line, each with the one line that answers it."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest
from commands import refuse

from egrl.cli.main import main

MISTAKES = [
    ("rnu --workload bert", "rnu", "found 'rnu'; did you mean run?"),
    (
        "run --worklaod bert",
        "--worklaod",
        "egrl run: expected an option of `egrl run --help`, found --worklaod; did you mean --workload?",
    ),
    ("run bert", "bert", "Got unexpected extra argument (bert); expected egrl run [OPTIONS]"),
    (
        "run",
        "none",
        "--workload: expected a name or a file; `egrl list workloads` shows the names, found none",
    ),
    ("run --workload brt", "brt", "found neither; `egrl list workloads` lists all names; did you mean bert?"),
    (
        "run --config no_workload.toml",
        "none",
        "--workload: expected a name or a file; `egrl list workloads` shows the names, found none",
    ),
    ("run --workload bert --method anealing", "anealing", "found 'anealing'; did you mean annealing?"),
    (
        "run --workload bert --method egrl:fast",
        "egrl:fast",
        "--method: expected egrl, which has no variants, found 'egrl:fast'",
    ),
    (
        "run --workload bert --problem mmpa",
        "mmpa",
        "or MODULE:NAME, found 'mmpa'; did you mean mmap?",
    ),
    (
        "run --workload bert --chip ndge",
        "ndge",
        "chip: expected one of edge, h100, nnpi, npu, quad, tpuv4i or a .toml file, found 'ndge'; did you mean edge?",
    ),
    (
        "run --workload alexnet --chip mine.toml",
        "memories[1] (llc).bandwith_Bps: expected no such key but name, capacity_bytes",
        "found 680000000000.0; did you mean bandwidth_Bps?",
    ),
    (
        "run --workload alexnet --chip nowhere.toml",
        "nowhere.toml",
        "nowhere.toml: expected a chip file: No such file or directory",
    ),
    ("run --workload bert --start cald", "cald", "found no such file as 'cald'; did you mean cold?"),
    (
        "run --workload bert --start mapping.json",
        "mapping.json",
        "--start: expected cold, compiler, rules, policy, exact or a mapping file (best_mapping.json), found no",
    ),
    (
        "run --workload bert --init policy.safetensors",
        "policy.safetensors",
        "policy.safetensors: expected a policy file: No such file or directory",
    ),
    ("run --workload bert --gens many", "many", "--gens: expected a valid integer, found 'many'"),
    ("run --workload bert --gens 0", "0", "--gens: expected at least 1, found 0"),
    (
        "run --workload bert --gens 5 --evals 100",
        "--gens, --evals",
        "expected one of --gens, --evals and --seconds, found --gens, --evals",
    ),
    ("run --workload bert --seconds -1", "-1", "--seconds: expected at least 0, found -1.0"),
    ("run --workload bert --seed -1", "-1", "--seed: expected at least 0, found -1"),
    ("run --workload bert --workers 0", "0", "--workers: expected at least 1, found 0"),
    (
        "run --workload bert --executor rai",
        "rai",
        "--executor: expected one of local, ray, found 'rai'; did you mean ray?",
    ),
    (
        "run --workload bert --ray-address auto",
        "local",
        "--ray-address auto: expected --executor ray, found local",
    ),
    ("run --workload bert --preset papr", "papr", "--preset: expected paper, found 'papr'"),
    (
        "run --workload bert --ablation no-search",
        "egrl",
        "--ablation no-search: expected a method with parts to leave out, found egrl",
    ),
    (
        "run --workload bert --set method.alhpa=1",
        "alhpa",
        "--set method: unknown key 'alhpa'; did you mean alpha?",
    ),
    ("run --workload bert --set metod.alpha=1", "metod.alpha=1", "did you mean method?"),
    (
        "run --workload bert --set method.alpha",
        "method.alpha",
        "--set method.alpha: expected problem.KEY=VALUE or method.KEY=VALUE or evaluator.KEY=VALUE",
    ),
    (
        "run --workload bert --method annealing --set method.chains=0",
        "0",
        "--set method: chains: expected at least 1, found 0",
    ),
    (
        "run --workload bert --method annealing --set method.space=plans",
        "plans",
        "--set method: space: expected 'mappings' or 'distributions', found 'plans'",
    ),
    (
        "run --workload bert --set problem.baseline=first",
        "first",
        "baseline: expected one of execution-order, activations-first, weights-first, smallest-first,",
    ),
    (
        "run --workload bert --set evaluator.repeats=3",
        "found none",
        "--set evaluator.repeats: expected --evaluator, found none",
    ),
    (
        "run --workload alexnet --evaluator no-such-board",
        "no-such-board",
        "--evaluator 'no-such-board': expected a command that can be started, found no such program: no-such-board",
    ),
    (
        "run --workload alexnet --method random --out RUN",
        "RUN",
        "--out RUN: expected a new or empty folder, found",
    ),
    (
        "run --resume nowhere",
        "nowhere",
        "--resume 'nowhere': expected a run folder with config.toml, found none",
    ),
    (
        "run --resume RUN --gens 1",
        "found --gens 1",
        "--resume: expected a larger budget, --gens of at least 2; found --gens 1",
    ),
    (
        "run --resume RUN --seed 2",
        "found --seed",
        "--resume: expected no other flags than --gens, --evals, --seconds, --workers, --executor,",
    ),
    (
        "run --resume EDITED --gens 3",
        "found 2",
        "EDITED/config.toml: method.chains: expected 1, with which the run was made, found 2; start another",
    ),
    (
        "run --config mine.toml",
        "'chip'",
        "mine.toml: expected kind 'config' version 1, found 'chip' version 1",
    ),
    (
        "compare --workload bert --methods anealing --out c",
        "anealing",
        "found 'anealing'; did you mean annealing?",
    ),
    (
        "compare --workload bert --methods random,random --out c",
        "random,random",
        "--methods: expected different names, found 'random,random'",
    ),
    (
        "compare --workload bert --methods random --out c --evals 21 --seconds 60",
        "--evals, --seconds",
        "expected one of --gens, --evals and --seconds, found --evals, --seconds",
    ),
    (
        "compare --workload bert --methods ea,auto --out c",
        "auto",
        "--methods: expected names of `egrl list methods`, found 'auto', which is another for each problem",
    ),
    ("run --dim batch=1", "--dim", "found --dim, an option of `egrl export`, `egrl import`"),
    (
        "compare --workload bert --methods random --out c --job 2",
        "--job",
        "egrl compare: expected an option of `egrl compare --help`, found --job; did you mean --jobs?",
    ),
    (
        "compare --workload bert --methods random --out c --jobs 0",
        "0",
        "--jobs: expected a value in the range x>=1, found 0",
    ),
    (
        "transfer RUN --workload bert --workers 0",
        "0",
        "--workers: expected a value in the range 1<=x<=1024, found 0",
    ),
    (
        "run --workload alexnet --log nowhere/run.log",
        "nowhere/run.log",
        "--log 'nowhere/run.log': expected a file that can be written: No such file or directory",
    ),
    ("compare --workload bert --methods random --out c --set randm.x=1", "randm.x=1", "did you mean random?"),
    (
        "pretrain --workloads bert --out p",
        "bert",
        "--workloads: expected at least two, or --chips-around, found bert (egrl run trains on one)",
    ),
    (
        "pretrain --workloads bert,resnet50 --method ea --out p",
        "found ea",
        "--method: expected one that trains on several workloads, such as es, rank or ppo, found ea",
    ),
    (
        "transfer RUN --workload resnet50",
        "RUN",
        "RUN: expected a run with policies (of a method with networks, such as egrl), found none in policies/",
    ),
    ("evaluate", "neither", "evaluate: expected a run folder or --workload, found neither"),
    (
        "evaluate RUN --chip edge",
        "found RUN and --chip",
        "the two exclude each other, as a run has its own workload, chip and settings",
    ),
    (
        "evaluate RUN --workload bert",
        "found RUN and --workload",
        "evaluate: expected a run folder or --workload, found RUN and --workload",
    ),
    ("evaluate --workload bert --mapping compilr", "compilr", "found no such file; did you mean compiler?"),
    (
        "evaluate RUN/best_mapping.json",
        "RUN/best_mapping.json",
        "expected a run folder, found a file; a mapping file is named by --mapping RUN/best_mapping.json",
    ),
    ("evaluate nowhere", "nowhere", "nowhere: expected a run folder, found no such folder"),
    ("plot curvs RUN", "curvs", "found 'curvs'; did you mean curves?"),
    ("plot curves nowhere", "nowhere", "nowhere: expected a run folder, found no such folder"),
    (
        "plot curves RUN -o curves.bmp",
        "curves.bmp",
        "--output curves.bmp: expected a file ending in .png, .svg, .pdf",
    ),
    (
        "plot partition RUN",
        "'nnpi'",
        "plot partition: expected a problem that splits a network over chips (mcm), found 'nnpi'",
    ),
    ("export RUN", "none", "egrl export: expected -o, file to write; found none"),
    (
        "export RUN -o mapping.txt",
        "mapping.txt",
        "--output mapping.txt: expected a file ending in .json, .csv or .onnx, or --format",
    ),
    ("allocate", "neither", "allocate: expected a run folder or --workload, found neither"),
    (
        "list chpis",
        "chpis",
        "KIND: expected one of workloads, chips, methods, problems, settings, found 'chpis'; did you mean chips?",
    ),
    ("list settings anealing", "anealing", "found 'anealing'; did you mean annealing?"),
    (
        "reproduce egr",
        "'egr'",
        "found 'egr'; did you mean egrl?",
    ),
    ("reproduce egrl --share 0.5", "0.5", "--share: expected none for egrl, found 0.5"),
    ("chip nwe mine.toml", "'nwe'", "egrl chip: expected one of new, found 'nwe'; did you mean new?"),
    ("chip new other.toml --like ndge", "ndge", "found 'ndge'; did you mean edge?"),
    ("run --workload bert --threads two", "two", "--threads: expected a valid integer, found 'two'"),
    (
        "run --workload mcm87",
        "mcm87",
        "workload 'mcm87': expected one workload, found a set of 87, which `egrl pretrain`, `egrl transfer`",
    ),
    ("run --workload bert:layrs=2", "bert:layrs", "found 'layrs=2'; did you mean layers?"),
]


@pytest.fixture(scope="module")
def folder(finished, tmp_path_factory) -> Path:
    """What mistakes are made about: a RUN, one whose config.toml was EDITED, and a chip file with a wrong key."""
    made: Path = tmp_path_factory.mktemp("mistakes")
    for name in ("RUN", "EDITED"):
        shutil.copytree(finished, made / name)
    config = made / "EDITED" / "config.toml"
    config.write_text(config.read_text().replace("chains = 1", "chains = 2"))
    assert main(["chip", "new", str(made / "mine.toml")]) == 0
    text = (made / "mine.toml").read_text()
    assert "bandwidth_Bps = 680e9" in text
    (made / "mine.toml").write_text(text.replace("bandwidth_Bps = 680e9", "bandwith_Bps = 680e9"))
    (made / "no_workload.toml").write_text('kind = "config"\nversion = 1\n', encoding="utf-8")
    return made


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}


@pytest.mark.parametrize(
    ("command", "given", "answer"), MISTAKES, ids=[command for command, _, _ in MISTAKES]
)
def test_a_mistake_is_answered_in_one_line_and_changes_nothing(
    command, given, answer, folder, capsys, monkeypatch
):
    monkeypatch.chdir(folder)
    before = contents(folder)
    line = refuse(capsys, shlex.split(command), answer, given)
    assert "expected" in line or "did you mean" in line
    assert "Traceback" not in line
    assert contents(folder) == before


def test_there_are_forty_mistakes_and_each_is_another():
    assert len({command for command, _, _ in MISTAKES}) == len(MISTAKES) >= 40
