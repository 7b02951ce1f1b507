"""Code from outside the package: what it may be, what is said where it is not, and what no folder can make run."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from plugged import ROOT, run_all, run_here

import egrl
from egrl.cli.listing import entries
from egrl.core.registry import ProblemDefinition, ProblemEntry
from workloads.errors import InputError

EXAMPLE = ROOT / "examples" / "plugin" / "egrl_balance"
BROKEN = {
    "missing": "\nimport nothing_of_the_kind\n",
    "syntax": "x = 1\ndef (\n",
    "raises": "\n\nraise KeyError('boom\\nboom')\n",
    "quits": "raise SystemExit(3)\n",
}


@dataclass(frozen=True)
class Cores:
    """Settings of a problem, which has none."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example's method and problem in files, and files that are wrong in every way."""
    made = tmp_path_factory.mktemp("plugins") / "here"
    made.mkdir()
    for name in ("balance", "climb"):
        shutil.copy(EXAMPLE / f"{name}.py", made)
    shutil.copy(ROOT / "tests" / "things.py", made)
    for name, text in BROKEN.items():
        (made / f"{name}.py").write_text(text, encoding="utf-8")
    return made


def distribution(site: Path, name: str, points: str) -> None:
    """An installed distribution that is nothing but its entry points."""
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(points, encoding="utf-8")


METHOD = ["run", "--workload", "alexnet", "--gens", "1", "--out", "refused", "--method"]
PROBLEM = ["run", "--workload", "9", "--gens", "1", "--out", "refused", "--problem"]
REFUSED = [
    ([*METHOD, "nowhere:X"], "--method nowhere:X: expected a module nowhere, here or installed, found none"),
    ([*METHOD, "climb.deep:X"], "--method climb.deep:X: expected a module climb.deep, here or installed"),
    ([*METHOD, "climb:HillCliber"], "expected HillCliber in climb.py, found none; did you mean HillClimber?"),
    ([*METHOD, "climb:"], "--method: expected one of egrl, ea, "),
    ([*METHOD, "climb:a-b"], " or MODULE:NAME, found 'climb:a-b'"),
    ([*METHOD, "missing:X"], "--method missing:X: missing.py, line 2: No module named 'nothing_of_the_kind'"),
    ([*METHOD, "syntax:X"], "--method syntax:X: syntax.py, line 2: SyntaxError: "),
    ([*METHOD, "raises:X"], "--method raises:X: raises.py, line 3: KeyError: "),
    ([*METHOD, "quits:X"], "--method quits:X: quits.py, line 1: SystemExit: 3"),
    ([*METHOD, "things:number"], "expected a MethodEntry, a MethodDefinition, or a class derived from"),
    ([*METHOD, "balance:Balance"], "a class derived from Method, found class balance:Balance"),
    ([*METHOD, "things:NoAsk"], "found things:NoAsk without ask"),
    ([*METHOD, "things:NoContext"], "cannot be called with (context) or (context, config: a dataclass)"),
    ([*METHOD, "things:TwoMore"], "cannot be called with (context) or (context, config: a dataclass)"),
    ([*METHOD, "things:Unsettled"], "settings with a field that has no default: Without.needed"),
    ([*METHOD, "things:UNSETTLED"], "settings with a field that has no default: Without.needed"),
    (
        [*METHOD, "things:METHOD"],
        "--method things:METHOD cannot serve problem nnpi: it is a test; --method annealing serves every problem",
    ),
    ([*METHOD, "climb:HillClimber", "--set", "method.changes=0"], "changes: expected at least"),
    ([*PROBLEM, "things:number"], "expected a ProblemEntry, a ProblemDefinition, or what makes a Problem"),
    ([*PROBLEM, "things:one_argument"], "(workload, chip) or (workload, chip, config: a dataclass)"),
    ([*PROBLEM, "things:no_problem"], "found int without about, space, baseline, evaluate, judge"),
    ([*PROBLEM, "things:FAILS"], "things.py, line "),
    ([*PROBLEM, "things:EMPTY"], "found one whose load() gives no ProblemDefinition but int"),
    ([*PROBLEM, "balance"], "or MODULE:NAME, found 'balance'"),
    ([*PROBLEM, "balance:Balance", "--chip", "many"], "--chip: expected a number from 1 to 10000, found"),
    (["plot", "things:number", "x", "-o", "x.png"], "plot things:number: expected a function of run folders"),
    (["plot", "curvs", "x", "-o", "x.png"], "plot: expected one of curves, shift, "),
    (["list", "settings", "things:number"], "list settings things:number: expected a method or a problem"),
    (
        ["export", "x", "--to", "things:number", "-o", "x.json"],
        "--to things:number: expected a function of a run",
    ),
    (
        ["export", "x", "--to", "pytorc", "-o", "x.json"],
        "--to: expected one of ",
    ),
    (["things:number"], "egrl things:number: expected a command of click, found int things:number"),
    (["rum"], "egrl: expected one of run, watch, "),
    (["reproduce", "things:number"], "reproduce things:number: expected a Paper, found int things:number"),
    (["reproduce", "tags"], "reproduce: expected one of egrl, mcm, "),
    (
        ["list", "settings", "curves"],
        "list settings: expected one of nnpi, mmap, mcm, ",
    ),
]


def test_workloads_of_a_problem_are_listed_and_a_broken_one_breaks_no_list(monkeypatch):
    def broken():
        raise InputError("it is broken")

    definition = ProblemDefinition(Cores, Cores, lambda: ["two"], lambda chip: {"summary": chip}, {})
    listed = replace(definition, workloads=lambda: [{"name": "a", "summary": "nine cores"}])
    loads = {"listed": lambda: listed, "broken": broken, "plain": lambda: definition}
    monkeypatch.setattr("egrl.problems.list_problems", lambda: [{"name": name} for name in loads])
    monkeypatch.setattr("egrl.problems.find_problem", lambda name: ProblemEntry("", "", "", loads[name]))
    assert entries("workloads") == [{"name": "a", "summary": "nine cores"}]
    assert [entry["name"] for entry in entries("chips")] == ["two", "-", "two"]


@pytest.mark.slow
def test_what_is_wrong_is_one_line_that_says_what_was_expected(folder):
    told = run_here([argv for argv, _ in REFUSED], folder)
    for (argv, words), (code, out, err) in zip(REFUSED, told, strict=True):
        assert (code, out, err.count("\n")) == (2, "", 1), (argv, err)
        assert err.startswith("egrl: error: ")
        assert words in err, argv
    assert not (folder / "refused").exists()


@pytest.mark.slow
def test_a_class_a_function_and_definitions_serve(folder):
    run = ["run", "--workload", "9", "--gens", "1", "--quiet", "--json"]
    told = run_here(
        [
            [*run, "--problem", "things:settled", "--method", "things:Short"],
            [*run, "--problem", "things:settled", "--set", "problem.cores=2"],
            [*run, "--problem", "things:PROBLEM", "--preset", "paper"],
            [*run, "--problem", "things:ENTRY", "--chip", "four"],
            ["list", "settings", "things:settled"],
            ["list", "settings", "things:Short"],
            ["list", "settings", "things:METHOD"],
        ],
        folder,
    )
    assert [(code, err) for code, _, err in told if code != 0] == []
    expected = [("3", "things:Short"), ("2", "annealing"), ("5", "annealing"), ("3", "random")]
    for (cores, method), (_, out, _) in zip(expected, told, strict=False):
        assert f'"chip": "cores-{cores}"' in out
        assert f'"method": "{method}"' in out
    settings = [out.split()[:2] for _, out, _ in told[4:]]
    assert settings == [["problem.cores", "3"], [], ["method.changes", "1"]]


@pytest.mark.exhaustive
def test_no_file_here_takes_the_place_of_an_installed_module(folder):
    (folder / "matplotlib.py").write_text("raise RuntimeError\n", encoding="utf-8")
    run = [
        "run",
        "--workload",
        "9",
        "--problem",
        "balance:Balance",
        "--gens",
        "1",
        "--quiet",
        "--out",
        "shadowed",
    ]
    try:
        told = run_all([run, ["plot", "curves", "shadowed", "-o", "shadowed.png"]], folder)
    finally:
        (folder / "matplotlib.py").unlink()
    assert [(code, err) for code, _, err, _ in told] == [(0, ""), (0, "")]


@pytest.mark.exhaustive
def test_a_broken_plug_in_is_one_line_and_breaks_nothing_else(folder, tmp_path):
    distribution(
        tmp_path,
        "bad",
        "[egrl.methods]\nbad = missing:X\nodd = not a reference\n"
        "[egrl.problems]\nbad = raises:X\nchipless = things:CHIPLESS\n",
    )
    distribution(
        tmp_path,
        "greedy",
        "[egrl.methods]\nrandom = missing:X\ntwice = missing:X\n[egrl.figures]\ncurves=missing:X",
    )
    distribution(tmp_path, "other", "[egrl.methods]\ntwice = missing:X\nco:lon = missing:X\n")
    run = [*METHOD[:-3], "--quiet", "--method"]
    listed, chips, good, bad, odd, twice = run_all(
        [
            ["list", "methods"],
            ["list", "chips"],
            [*METHOD[:-3], "--out", "good", "--method", "random"],
            [*run, "bad"],
            [*run, "odd"],
            [*run, "twice"],
        ],
        folder,
        tmp_path,
        folder,
    )
    assert listed[0] == chips[0] == good[0] == 0
    told = " ".join(listed[1].split())
    assert "bad cannot be used: --method bad (of bad 1.0): missing.py, line 2: No module named" in told
    assert "odd cannot be used: --method odd (of bad 1.0): expected an entry point" in told
    assert "problem bad cannot be used: --problem bad (of bad 1.0): raises.py, line 3: KeyError" in chips[1]
    assert "problem chipless cannot be used: IndexError" in chips[1]
    notices = [
        "egrl: method 'co:lon' of other 1.0 is ignored: a name has no colon and no comma",
        "egrl: method random of greedy 1.0 is ignored: the name is the package's own",
        "egrl: method twice is ignored: several offer it, greedy 1.0 and other 1.0; uninstall one",
    ]
    assert listed[2].splitlines() == notices
    assert [line for line in good[2].splitlines() if "ignored" in line] == notices
    assert (bad[0], bad[2].count("\n")) == (2, 1)
    assert "--method bad (of bad 1.0): missing.py, line 2: No module named 'nothing_of_the_kind'" in bad[2]
    assert "--method odd (of bad 1.0): expected an entry point MODULE:NAME, found 'not a reference'" in odd[2]
    assert "--method: expected one of egrl, " in twice[2]


@pytest.mark.exhaustive
def test_a_comparison_goes_on_with_code_in_files(folder):
    argv = ["compare", "--problem", "balance:Balance", "--workload", "9", "--methods", "climb:HillClimber"]
    argv += ["--seeds", "1", "--out", "compared", "--evals"]
    first, second = run_all([[*argv, "21"], [*argv, "42"]], folder)
    assert (first[0], second[0]) == (0, 0), first[2] + second[2]
    assert "42 evaluations" in second[1]
    assert (folder / "compared" / "9" / "climb-HillClimber-s0" / "summary.json").is_file()


@pytest.mark.exhaustive
def test_policies_of_a_problem_in_a_file_are_trained_and_placed(folder):
    small = [f"method.network.{key}=" for key in ("width", "depth", "attention_heads")]
    sizes = [word for key, size in zip(small, (8, 2, 2), strict=True) for word in ("--set", f"{key}{size}")]
    own = ["--problem", "things:Seen"]
    search = [
        "run",
        "--workload",
        "9",
        *own,
        "--method",
        "es",
        "--gens",
        "1",
        "--quiet",
        "--out",
        "seen",
        *sizes,
    ]
    train = ["pretrain", "--workloads", "5,6", *own, "--gens", "1", "--quiet", "--out", "trained", *sizes]
    finetune = ["transfer", "seen", "--workload", "8", *own, "--finetune"]
    told = run_all(
        [
            search,
            train,
            ["transfer", "seen", "trained", "--workload", "7", *own],
            [*finetune, "21"],
            [*finetune, "42"],
            ["plot", "transfer", "seen", *own, "-o", "seen.png"],
        ],
        folder,
    )
    assert [(code, err) for code, _, err, _ in told if code != 0] == []


FAULTY = """
from egrl import Method, proposals


class Faulty(Method):
    def __init__(self, context):
        self.problem = context.problems[0]

    def ask(self):
        return proposals(self.problem.baseline.mapping[None].repeat(10, axis=0), "faulty")

    def state_dict(self):
        return {"asked": 1}

    def load_state_dict(self, state):
        self.asked = state["asked"] + self.no_such_attribute
"""


def test_a_mistake_in_a_method_from_outside_shows_its_traceback(tmp_path, monkeypatch):
    """What a stranger's own code raises while a run is brought back is no damage of the checkpoint."""
    (tmp_path / "faulty_method.py").write_text(FAULTY, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    egrl.search("alexnet", method="faulty_method:Faulty", evals=10, out="run")
    with pytest.raises(AttributeError, match="no_such_attribute"):
        egrl.search(resume="run", method="faulty_method:Faulty", evals=20)
