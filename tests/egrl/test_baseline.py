"""`--baseline FILE`: speedups over a mapping of the user's, in every command and in Python."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from commands import refuse

import egrl
from egrl.cli.main import main
from egrl.core.mapping_file import read, rows_of_csv
from egrl.figures.repetitions import check_comparable, common_start, labels, to_plot
from egrl.methods.placed import placed_by_rules
from egrl.problems import build_problem
from egrl.report.page import page_of
from egrl.runs.past_run import PastRun
from workloads.errors import InputError
from workloads.text import csv_cell

SEARCH = ["--method", "annealing", "--evals", "63"]


@pytest.fixture(scope="module")
def mine(tmp_path_factory) -> Path:
    """A mapping of AlexNet that is slower than the rule's: everything in dram, as a table."""
    problem = egrl.search("alexnet", method="random", evals=1).problem
    space = problem.space
    weights = ["dram" if live else "" for live in space.live[:, 0]]
    rows = [f"{node},{weight},dram" for node, weight in zip(space.nodes, weights, strict=True)]
    path = tmp_path_factory.mktemp("mine") / "mine.csv"
    path.write_text("node,weight,activation\n" + "\n".join(rows) + "\n")
    return path


@pytest.fixture(scope="module")
def finished(mine, tmp_path_factory) -> Path:
    """A run over a baseline file that is gone since."""
    folder = tmp_path_factory.mktemp("over")
    given = Path(shutil.copy(mine, folder / "vela.csv"))
    argv = ["run", "--workload", "alexnet", *SEARCH, "--baseline", str(given), "--out", str(folder / "r")]
    assert main([*argv, "--quiet"]) == 0
    given.unlink()
    return folder / "r"


def summary_of(run: Path) -> dict:
    return json.loads((run / "summary.json").read_text())


def test_a_run_is_over_the_file_and_names_it(finished):
    found = summary_of(finished)
    assert found["baseline"]["rule"] == found["about"]["rival"] == "vela.csv"
    assert found["best"]["speedup"] == found["baseline"]["cost"] / found["best"]["cost"]
    assert found["best"]["speedup"] > 1
    assert found["best"]["reward"] == pytest.approx(found["best"]["speedup"] ** 2)
    assert json.loads((finished / "baseline_mapping.json").read_text())["name"] == "vela.csv"


@pytest.mark.slow
def test_a_folder_needs_no_file_outside(finished, tmp_path, capsys):
    run = Path(shutil.copytree(finished, tmp_path / "r"))
    assert main(["evaluate", str(run)]) == 0
    assert "over vela.csv" in capsys.readouterr().out
    assert main(["run", "--resume", str(run), "--evals", "84"]) == 0
    assert "over vela.csv" in capsys.readouterr().out
    assert "over vela.csv" in page_of([PastRun.read(run)])
    (run / "baseline_mapping.json").unlink()
    refuse(capsys, ["evaluate", str(run)], "baseline_mapping.json: expected a mapping file")


def test_a_baseline_that_breaks_several_rules_says_where_all_are_listed(tmp_path, capsys):
    problem = build_problem("nnpi", "resnet50", "", ())
    table = ["node,weight,activation"]
    for name, live in zip(problem.space.nodes, problem.space.live, strict=True):
        table.append(",".join([name, *("sram" if each else "" for each in live)]))
    file = tmp_path / "all.csv"
    file.write_text("\n".join(table))
    line = refuse(
        capsys, ["evaluate", "--workload", "resnet50", "--baseline", str(file)], "expected a mapping that is"
    )
    assert f" more; egrl evaluate --mapping {file} --json lists all)" in line
    assert main(["evaluate", "--workload", "resnet50", "--mapping", str(file)]) == 0
    assert capsys.readouterr().out.count("not valid as given: ") > 1


def test_another_file_under_the_folder_s_is_noticed(finished, tmp_path, capsys):
    run = Path(shutil.copytree(finished, tmp_path / "r"))
    document = json.loads((run / "baseline_mapping.json").read_text())
    document["mapping"][0]["weight"] = "llc"
    (run / "baseline_mapping.json").write_text(json.dumps(document))
    refuse(capsys, ["evaluate", str(run)], "expected fingerprint")


@pytest.mark.slow
def test_a_resumed_run_equals_a_longer_one(mine, finished, tmp_path):
    run = Path(shutil.copytree(finished, tmp_path / "r"))
    assert main(["run", "--resume", str(run), "--evals", "84", "--quiet"]) == 0
    longer = egrl.search("alexnet", method="annealing", evals=84, baseline=mine)
    assert summary_of(run)["best"] == longer.summary["best"]


def test_python_takes_it_too(mine):
    result = egrl.search("alexnet", method="annealing", evals=21, baseline=mine)
    assert "x faster than mine.csv" in repr(result)
    with egrl.Search("alexnet", method="annealing", baseline=mine) as search:
        batch = search.ask(limit=1)
        assert search.problem.about.baseline_name == "mine.csv"
        np.testing.assert_array_equal(batch.mapping[0], search.problem.baseline.mapping)


@pytest.mark.slow
@pytest.mark.parametrize(
    "argv",
    [
        ["evaluate", "--workload", "alexnet"],
        ["bound", "--workload", "alexnet"],
        ["compare", "--workload", "alexnet", "--methods", "random", "--seeds", "1", "--evals", "21"],
    ],
)
def test_every_command_takes_it_and_names_it(argv, mine, tmp_path, capsys):
    out = ["--out", str(tmp_path / "c")] if argv[0] == "compare" else []
    assert main([*argv, "--baseline", str(mine), *out]) == 0
    said = capsys.readouterr().out
    assert "mine.csv" in said
    assert "compiler" not in said


@pytest.mark.slow
def test_a_finished_run_can_be_held_against_a_file_later(mine, finished, tmp_path, capsys):
    plain = tmp_path / "plain"
    assert main(["run", "--workload", "alexnet", *SEARCH, "--out", str(plain), "--quiet"]) == 0
    past, over = PastRun.read(plain), PastRun.read(plain).over(str(mine))
    factor = over.problem.baseline.cost / past.problem.baseline.cost
    assert over.summary["best"]["speedup"] == pytest.approx(past.summary["best"]["speedup"] * factor)
    assert over.summary["best"]["reward"] == pytest.approx(over.summary["best"]["speedup"] ** 2)
    assert over.summary["fingerprint"] == over.problem.fingerprint() == summary_of(finished)["fingerprint"]
    np.testing.assert_allclose(over.evaluations().speedup, past.evaluations().speedup * factor)
    page = tmp_path / "page.html"
    assert main(["report", str(plain), "--baseline", str(mine), "-o", str(page)]) == 0
    assert "The speedup is over mine.csv." in page.read_text()
    assert main(["report", str(plain), str(finished), "--baseline", str(mine), "-o", str(page)]) == 0
    capsys.readouterr()
    said = "; compare them with one mapping with --baseline FILE"
    refuse(capsys, ["report", str(plain), str(finished)], "expected runs of one baseline", said)
    refuse(capsys, ["plot", "explore", str(plain), "--baseline", str(mine)], "--baseline: expected none")
    assert main(["evaluate", str(plain), "--baseline", str(mine), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["speedup"] == pytest.approx(over.summary["best"]["speedup"])


@pytest.mark.exhaustive
def test_a_comparison_over_another_baseline_names_the_flag(mine, tmp_path, capsys):
    given, out = Path(shutil.copy(mine, tmp_path / "mine.csv")), tmp_path / "c"
    argv = ["compare", "--workload", "alexnet", "--methods", "random", "--seeds", "1", "--evals", "21"]
    argv += ["--out", str(out)]
    with_it = [*argv, "--baseline", str(given)]
    assert main([*with_it, "--quiet"]) == 0
    refuse(capsys, argv, "run.baseline: expected ''", f"; take another --out, or --baseline {given}\n")
    first, *others = given.read_text().splitlines(keepends=True)
    given.write_text("".join([first, others[0].replace("dram", "llc"), *others[1:]]))
    refuse(capsys, with_it, "made by another simulator, chip, workload or --baseline")
    shutil.rmtree(out)
    assert main([*argv, "--quiet"]) == 0
    refuse(capsys, with_it, "run.baseline: expected", "found ''; take another --out, or no --baseline\n")


@pytest.mark.exhaustive
def test_runs_held_against_one_file_call_it_by_one_name(mine, finished, tmp_path, capsys):
    named = tmp_path / "named.json"
    document = json.loads((finished / "baseline_mapping.json").read_text()) | {"name": "Vela 4.2"}
    named.write_text(json.dumps(document))
    runs = []
    for name, flags in {"plain": [], "named": ["--baseline", str(named)]}.items():
        for start in ("compiler", "cold"):
            runs.append(tmp_path / f"{name}-{start}")
            argv = ["run", "--workload", "alexnet", *SEARCH, *flags, "--start", start, "--out", str(runs[-1])]
            assert main([*argv, "--quiet"]) == 0
    past = [PastRun.read(run).over(str(mine)) for run in (*runs, finished)]
    plotted = [to_plot(run) for run in past]
    check_comparable(plotted)
    assert labels(plotted) == [
        "annealing, compiler start",
        "annealing, cold start, baseline=none",
        "annealing, Vela 4.2 start",
        "annealing, cold start, baseline=Vela 4.2",
        "annealing, vela.csv start",
    ]
    assert common_start(plotted[:1]) == "compiler"
    assert common_start(plotted[-1:]) == "vela.csv"
    page = page_of(past[:1])
    assert "mine.csv, which --baseline names" in page
    drawn = tmp_path / "curves.svg"
    assert main(["plot", "curves", *map(str, runs), "--baseline", str(mine), "-o", str(drawn)]) == 0
    assert "mine.csv" in drawn.read_text()


def test_a_board_measures_the_baseline_of_the_file(mine, tmp_path):
    board = tmp_path / "board.py"
    board.write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    request = json.loads(line)\n"
        "    rows = request['mapping']\n"
        "    slow = sum(row.get(head) == 'dram' for row in rows for head in ('weight', 'activation'))\n"
        "    print(json.dumps({'id': request['id'], 'latency_s': 1e-3 * (1 + slow)}), flush=True)\n"
    )
    argv = ["run", "--workload", "alexnet", *SEARCH, "--baseline", str(mine), "--quiet"]
    argv += ["--evaluator", f"{sys.executable} {board}", "--out", str(tmp_path / "r")]
    assert main(argv) == 0
    found = summary_of(tmp_path / "r")
    tensors = int(PastRun.read(tmp_path / "r").problem.space.live.sum())
    assert found["baseline"] == {"cost": pytest.approx(1e-3 * (1 + tensors)), "rule": "mine.csv"}
    with pytest.raises(InputError, match="expected a run whose costs a model gave"):
        PastRun.read(tmp_path / "r").over(str(mine))


def test_the_same_mapping_is_read_from_every_form(finished, tmp_path, capsys):
    long, shuffled = tmp_path / "long.csv", tmp_path / "shuffled.csv"
    assert main(["export", str(finished), "-o", str(long)]) == 0
    head, *lines = (f"why,{line}" for line in long.read_text().splitlines())
    shuffled.write_text("\n".join([head, *reversed(lines)]))
    costs = []
    for file in (str(long), str(shuffled), str(finished / "best_mapping.json")):
        capsys.readouterr()
        assert main(["evaluate", "--workload", "alexnet", "--baseline", file, "--json"]) == 0
        costs.append(json.loads(capsys.readouterr().out)["baseline"]["cost"])
    assert costs == [summary_of(finished)["best"]["cost"]] * 3


def test_a_name_that_a_spreadsheet_would_take_for_a_formula_is_read_as_it_was():
    space = egrl.search("alexnet", method="random", evals=1).problem.space
    names = ["=a", "'b", "-", "@c"]
    text = "node,weight\n" + "".join(f"{csv_cell(name)},dram\n" for name in names)
    assert [row["node"] for row in rows_of_csv(text, "x.csv", space).values()] == names


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_cells_of_a_table_may_be_apart_by_commas_semicolons_or_tabs(delimiter):
    space = egrl.search("alexnet", method="random", evals=1).problem.space
    text = "node,weight,note\na,dram,x\n".replace(",", delimiter)
    assert list(rows_of_csv(text, "x.csv", space).values()) == [{"node": "a", "weight": "dram"}]


def test_what_a_file_holds_counts_and_not_how_its_name_ends(mine, finished, tmp_path, capsys):
    for file in (mine, finished / "baseline_mapping.json"):
        given = Path(shutil.copy(file, tmp_path / "vela.txt"))
        assert main(["evaluate", "--workload", "alexnet", "--baseline", str(given), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)["baseline"]["cost"]
        assert found == summary_of(finished)["baseline"]["cost"]


@pytest.mark.parametrize("name", ["no.csv", "no.json", "no.onnx", ""])
def test_a_file_that_is_not_there_is_refused_with_the_flag(name, tmp_path, capsys):
    file = tmp_path / name
    argv = ["evaluate", "--workload", "alexnet", "--baseline", str(file)]
    refuse(capsys, argv, f"egrl: error: --baseline {file}: expected a m")


def test_a_file_may_say_what_it_is_called(finished, tmp_path, capsys):
    document = json.loads((finished / "best_mapping.json").read_text()) | {"name": "Vela 4.2"}
    (tmp_path / "x.json").write_text(json.dumps(document))
    assert main(["evaluate", "--workload", "alexnet", "--baseline", str(tmp_path / "x.json")]) == 0
    assert "over Vela 4.2 here" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "a,b\n1,2\n", "expected the columns node,weight,activation or op,head,choice, found 'a,b'"),
        ("a.csv", "node,weight\nconv9,dram\n", "expected a node of alexnet, found 'conv9'"),
        (
            "a.csv",
            "op,head,choice\nconv1,weight,dram\nconv1,weight,llc\n",
            "line 3: expected each tensor once",
        ),
        (
            "a.csv",
            "node,weight\nconv1,hbm\n",
            "line 2: weight of 'conv1': expected one of dram, llc, sram, found 'hbm'",
        ),
        (
            "a.csv",
            "node,weight,activation\nconv1,dram,\n",
            "a.csv: expected one of dram, llc, sram for every weight and activation, found none for the activation"
            " of 'conv1' and 18 more",
        ),
        (
            "a.csv",
            "node,weight,activation\nconv1,dram,dram\npool1,dram,dram\n",
            "a.csv: line 3: expected no weight of 'pool1', which has none, found 'dram'",
        ),
        ("a.csv", 'node,weight\n"conv1', "expected a table (.csv)"),
        ("a.txt", "hello\n", "expected the columns node,weight,activation or op,head,choice, found 'hello'"),
        ("a.json", "node,weight,activation\n", "a.json: line 1, column 1: expected JSON"),
        ("a.json", "{}", "--baseline"),
        ("a.json", '{"kind": "mapping", "version": 1, "name": 3}', "name: expected a printable text"),
    ],
)
def test_a_file_that_is_no_mapping_is_refused_in_one_line(name, text, said, tmp_path, capsys):
    (tmp_path / name).write_text(text)
    refuse(capsys, ["run", "--workload", "alexnet", "--baseline", str(tmp_path / name)], said)


def test_a_mapping_that_does_not_fit_the_chip_is_refused(mine, tmp_path, capsys):
    (tmp_path / "fast.csv").write_text(mine.read_text().replace("dram", "sram"))
    argv = ["run", "--workload", "alexnet", "--baseline", str(tmp_path / "fast.csv")]
    refuse(capsys, argv, "expected a mapping that is valid on nnpi, found sram overflows at step 0 (conv1)")


def test_the_trained_rule_is_a_baseline_if_it_is_asked_for(tmp_path, capsys):
    own = build_problem("nnpi", "resnet50", "", ())
    problem = build_problem("nnpi", "resnet50", "", (), "learned")
    assert np.array_equal(problem.baseline.mapping, placed_by_rules(own)[0])
    assert not np.array_equal(problem.baseline.mapping, own.baseline.mapping)
    assert problem.fingerprint() != own.fingerprint()
    out = str(tmp_path / "r")
    argv = ["run", "--workload", "resnet50", "--baseline", "learned", "--method", "random", "--gens", "1"]
    assert main([*argv, "--quiet", "--out", out]) == 0
    assert main(["run", "--resume", out, "--gens", "2", "--quiet"]) == 0
    assert np.array_equal(read(f"{out}/baseline_mapping.json", own), problem.baseline.mapping)
    refuse(
        capsys,
        ["run", "--problem", "mmap", "--workload", "alexnet_train_batch_32", "--baseline", "learned"],
        "--baseline learned: expected a problem that rules ship for, such as nnpi, found mmap",
    )
