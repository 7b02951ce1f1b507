"""The suite: its data, its judges against egrl's kernels, tracks, files of results, tables."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from egrl.methods.placed import place
from egrl_suite import files, library, scores, table, tasks, through_egrl
from egrl_suite.__main__ import main
from egrl_suite.judge import Judge, Wrong
from egrl_suite.methods import run
from egrl_suite.modules import ModuleJudge
from gate import gate

HERE = Path(__file__).parents[1]
ALL = library.all_instances()
SMALL = ("vgg16@nnpi", "dcgan@tpuv4i", "crnn@npu", "board:vgg19_tiled@nnpi")
LEFT = [one.name for one in ALL if one.kind in ("nnpi", "board")]


def drawn(one, count, seed):
    """Placements int16 [B, N, H] near the default's and far from it."""
    rng, shape = np.random.default_rng(seed), one.judge.sizes.shape
    far = rng.integers(len(one.judge.names), size=(count, *shape))
    some = rng.random((count, *shape)) < rng.choice([0.02, 0.2, 1.0], size=(count, 1, 1))
    return np.where(some & (one.judge.sizes > 0), far, one.default_mapping).astype(np.int16)


def compare(name, count):
    """The judge and the kernels on drawn placements: what runs is the same, its cost to rounding."""
    one = library.find(name)
    problem, maps = through_egrl.problem_of(one, truth=True), drawn(one, count, 1)
    found = problem.evaluate(maps, np.zeros(count, np.uint64))
    assert np.array_equal([one.judge.fitted(mapping) for mapping in maps], found.repaired)
    np.testing.assert_allclose([one.judge.cost(mapping) for mapping in maps], found.cost, rtol=1e-12)
    np.testing.assert_allclose(one.judge.profile(maps[0]), found.parts[0], rtol=1e-6)


@pytest.mark.parametrize("name", gate(SMALL, SMALL[::3]))
def test_the_judge_counts_as_the_kernels_do(name):
    compare(name, 100)


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_judge_counts_as_the_kernels_do_on_ten_thousand_placements_of_every_kind():
    for name in LEFT:
        compare(name, 10_000 // len(LEFT) + 1)


@pytest.mark.parametrize("name", gate([one.name for one in ALL if one.kind == "mcm"], ("mcm:mixer_s16@24",)))
def test_the_judge_of_modules_counts_and_refuses_as_egrl_does(name):
    one, rng = library.find(name), np.random.default_rng(2)
    problem, sizes = through_egrl.problem_of(one), one.judge.sizes
    valid = problem.sample(None, rng.integers(2**63, size=20).astype(np.uint64))
    found = problem.evaluate(valid, np.zeros(20, np.uint64))
    np.testing.assert_allclose([one.judge.cost(mapping) for mapping in valid], found.cost, rtol=1e-12)
    np.testing.assert_allclose(one.judge.profile(valid[0]), found.parts[0], rtol=1e-6)
    refused = 0
    for mapping in np.where(
        rng.random((60, *sizes.shape)) < 0.03, rng.integers(8, size=sizes.shape), valid[:1]
    ):
        try:
            one.judge.checked(mapping)
            wrong = False
        except Wrong:
            wrong = True
        assert wrong == bool(problem.judge(mapping.astype(np.int16)))
        refused += wrong
    assert refused > 0


def test_what_ships_has_its_digests_splits_by_family_and_chip_and_enough_to_gain():
    names = [one.name for one in ALL]
    assert len(set(names)) == len(names) >= 40
    for one in ALL:
        assert one.default_cost / one.best_cost >= 1.02
        assert one.bound <= one.best_cost <= 1.2 * one.bound
        assert one.judge.cost(one.default_mapping) == pytest.approx(one.default_cost, rel=1e-12)
    of = {split: {one.family for one in ALL if one.split == split} for split in library.SPLITS}
    assert not of["test"] & (of["train"] | of["validation"])
    assert len(of["test"]) >= 6
    chips = {split: {one.chip for one in ALL if one.split == split and one.kind == "nnpi"} for split in of}
    assert chips["test"] & chips["train"] == {"nnpi"}
    assert sum(path.stat().st_size for path in library.DATA.rglob("*")) < 2_000_000
    assert [one.kind for one in library.instances(quick=True)].count("nnpi") == 4


def test_the_judge_can_be_read_at_once():
    text = (HERE / "egrl_suite/judge.py").read_text("utf-8")
    assert len(text.splitlines()) <= 200
    imported = [line.split()[1] for line in text.splitlines() if line.startswith(("import ", "from "))]
    assert set(imported) == {"__future__", "fractions", "math", "typing", "numpy", "numpy.typing"}


def test_a_file_that_was_changed_is_refused(monkeypatch, tmp_path):
    library.version()
    monkeypatch.setattr(library, "DATA", tmp_path)
    (tmp_path / "chips").mkdir()
    (tmp_path / "chips" / "nnpi.toml").write_text("x = 1")
    library._bytes.cache_clear()
    with pytest.raises(library.SuiteError, match="digest"):
        library.read_chip("nnpi")
    library._bytes.cache_clear()


@pytest.mark.parametrize("name", gate(LEFT, ("dcgan@tpuv4i",)))
def test_a_bound_is_proved_again(name):
    one = library.find(name)
    bound, _ = through_egrl.prove(name, 30.0)
    assert bound <= one.best_cost * (1 + 1e-9)
    assert bound >= one.bound * (1 - 0.02)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda sizes: np.full(sizes.shape, np.nan), "memories 0 to"),
        (lambda sizes: np.full(sizes.shape, 99), "memories 0 to"),
        (lambda sizes: np.full(sizes.shape, 0.5), "memories 0 to"),
        (lambda sizes: np.full(sizes.shape, 1j), "complex"),
        (lambda sizes: [[0, 0], [0]], "inhomogeneous"),
        (lambda sizes: "fast", "found"),
        (lambda sizes: None, "found object"),
        (lambda sizes: np.zeros((1, 2), int), "expected numbers"),
    ],
)
def test_what_is_no_placement_is_refused(wrong, words):
    judge = library.find("vgg16@nnpi").judge
    with pytest.raises(Wrong, match=words):
        judge.cost(wrong(judge.sizes))


def method(tmp_path, monkeypatch, name, text):
    """A module of the working folder, which is forgotten when the test ends."""
    monkeypatch.setitem(sys.modules, name, None)
    del sys.modules[name]
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def test_failures_count_as_the_defaults_cost_and_a_slow_answer_as_it_is(tmp_path, monkeypatch):
    name = method(
        tmp_path,
        monkeypatch,
        "failing_methods",
        """
        def breaks(task, seed):
            task.measure(task.default)
            raise RuntimeError("no idea")
        def slow(network, chip):
            return [[0, 0] for _ in network["ops"]]
        def nothing(network, chip):
            return None
        def shapeless(task, seed):
            while task.left:
                task.measure([[9, 9]])
        """,
    )
    one, at_once = library.find("pix2pix_narrow@nnpi"), tasks.TRACKS["one-shot"]
    rows = {what: run(one, at_once, 1, f"{name}:{what}", 0) for what in ("breaks", "slow", "nothing")}
    assert rows["breaks"]["failed"] == "RuntimeError: no idea"
    assert rows["nothing"]["failed"] == "no placement"
    odd = run(one, tasks.TRACKS["measurements"], 25, f"{name}:shapeless", 0)
    assert odd["failed"].startswith("none of its placements can run: expected numbers [")
    assert scores.judged(rows["breaks"], "1") == scores.judged(rows["nothing"], "1") == one.default_cost
    assert not rows["slow"]["failed"]
    assert scores.judged({**rows["slow"], "failed": "no idea"}, "1") == one.default_cost
    assert scores.judged(rows["slow"], "1") > 1.1 * one.default_cost


def test_tasks_show_what_the_track_says_and_count():
    one = library.find("vgg16@nnpi")
    task = tasks.Task(one, tasks.TRACKS["measurements"], 25, 0)
    assert set(task.chip["memories"][0]) <= {"name", "capacity_bytes", "reserved_bytes"}
    assert "compute" not in task.chip
    assert "name" not in task.network
    for _ in range(25):
        assert task.measure(task.default) == (pytest.approx(one.default_cost), None)
    with pytest.raises(tasks.OutOfBudget):
        task.measure(task.default)
    assert set(task.answers()) == {25}
    profiled = tasks.Task(one, tasks.TRACKS["profiles"], 25, 0).measure(task.default)
    assert sum(profiled.profile) == pytest.approx(one.default_cost)
    assert "compute" in tasks.Task(one, tasks.TRACKS["model"], 1000, 0).chip


def test_boards_differ_from_their_chip_file_are_noisy_and_answers_are_confirmed():
    one = library.find("board:vgg19_tiled@nnpi")
    network, chip = one.seen
    assert Judge(network, chip).cost(one.default_mapping) != pytest.approx(one.default_cost, rel=0.01)
    task = tasks.Task(one, tasks.TRACKS["boards"], 50, 0)
    told = [task.measure(task.default).cost for _ in range(20)]
    assert 0.005 < np.std(np.log(told)) < 0.05
    assert task.left == 50 - tasks.CONTENDERS * tasks.AGAIN - 20
    better = tasks.Task(one, tasks.TRACKS["boards"], 50, 1)
    known = place(through_egrl.problem_of(one, truth=True)).mapping
    better.measure(known)
    assert np.array_equal(better.answers()[50], known)


def test_a_run_goes_on_and_a_table_judges_anew_and_lacks_nothing(tmp_path, capsys):
    out = tmp_path / "results.json"
    words = ["run", "--track", "measurements", "--quick", "--split", "test", "--most", "25", "-o", str(out)]
    assert main([*words, "--method", "random"]) == 0
    document = files.read(out)
    assert len(document["rows"]) == 4
    document["rows"].pop()
    lied = document["rows"][0]
    lied["judged"] = {"25": 1e-9}
    files.write(out, document)
    lacking = table.boards([out])
    assert lacking["measurements", "test", True]["random"]["25"].failed == 1
    assert main(["table", str(out)]) == 0
    assert "1 of 4 searches of random were not run, and count as failed" in capsys.readouterr().err
    assert main([*words, "--method", "random,default"]) == 0
    assert len(files.read(out)["rows"]) == 8
    capsys.readouterr()
    assert main(["table", str(out), "--figure", str(tmp_path / "shares.png")]) == 0
    text = capsys.readouterr().out
    assert "| `default` | 0.00±0.00 | 1.000 |" in text
    assert main(["table", str(out), "--against", "default"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows[4] == "| method | 25 | less `default` | worst | failed | seeds |"
    share, less = next(row for row in rows if "`random`" in row).split("|")[2:4]
    assert less.strip() == f"+{share.strip()}"  # the default's share is 0
    assert any(row.startswith("| `default` | 0.00±0.00 |  | 1.000") for row in rows)
    assert (tmp_path / "shares.png").stat().st_size > 10_000
    assert main(["run", "--track", "one-shot", "--split", "test", "--method", "random", "-o", str(out)]) == 2
    assert "name another file" in capsys.readouterr().err
    document["suite"]["version"] = 99
    files.write(out, document)
    assert main(["table", str(out)]) == 2
    assert "'version': 99" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--method", "nobody"], "expected default, random"),
        (["--method", "nowhere:X"], "No module named"),
        (["--method", "egrl_suite.tasks:track_named"], "(network, chip)"),
        (["--method", "egrl[learner.nothing=1]", "--quick", "--split", "test"], "learner.nothing"),
        (["--method", "random", "--most", "3"], "at least 25"),
        (["--method", "random", "--seeds", "0"], "at least 1"),
    ],
)
def test_what_a_user_gets_wrong_is_one_line(words, said, tmp_path, capsys):
    assert main(["run", "-o", str(tmp_path / "r.json"), *words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_an_interval_over_families_is_students():
    mean, low, high = scores.interval([0.1, 0.2, 0.3, 0.4])
    assert (mean, low, high) == pytest.approx((0.25, 0.04458, 0.45542), abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("track", "name"),
    [
        ("one-shot", "one_shot:place"),
        ("measurements", "ask_tell:Climber"),
        ("measurements", "gym_agent:train"),
        ("one-shot", "rules"),
        ("one-shot", "place*"),
        ("profiles", "egrl"),
        ("measurements", "egrl[learner.shared=false;evolution.boltzmann_fraction=1.0]"),
        ("boards", "twin"),
    ],
)
def test_methods_and_examples_run_and_gain(track, name, monkeypatch):
    monkeypatch.syspath_prepend(str(HERE / "examples"))
    kind = "board:vgg19_tiled@nnpi" if track == "boards" else "pix2pix_narrow@nnpi"
    one, sizes = library.find(kind), files.budgets(tasks.TRACKS[track], 100)
    row = run(one, tasks.TRACKS[track], sizes[0] if track == "boards" else sizes[-1], name, 0)
    assert not row["failed"]
    share = one.share(scores.judged(row, max(row["answers"], key=int)))
    assert share > 0.02 or (name == "one_shot:place" and share != 0.0)


def test_it_needs_numpy_alone(tmp_path):
    code = """
        import sys
        for name in ("egrl", "hwsim", "workloads", "torch", "numba", "scipy", "pydantic", "click", "matplotlib"):
            sys.modules[name] = None
        from egrl_suite.__main__ import main
        assert main(["list", "--split", "test"]) == 0
        assert main("run --track one-shot --quick --split test --method random -o r.json".split()) == 0
        assert main(["table", "r.json"]) == 0
        sys.exit(main(["prove", "vgg16@nnpi"]))
    """
    words = [sys.executable, "-c", textwrap.dedent(code)]
    found = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert found.returncode == 2, found.stderr
    assert "expected egrl" in found.stderr.splitlines()[-1]
    assert "one-shot" in found.stdout


def test_an_instance_is_exported_as_egrl_reads_it(tmp_path, capsys):
    from hwsim.nnpi.chip import load_chip
    from hwsim.nnpi.problem import NnpiProblem
    from workloads.load import load

    assert main(["export", "dcgan@tpuv4i", str(tmp_path / "files")]) == 0
    problem = NnpiProblem(
        load(str(tmp_path / "files/network.json")), load_chip(str(tmp_path / "files/chip.toml"))
    )
    assert problem.baseline.cost == pytest.approx(library.find("dcgan@tpuv4i").default_cost)
    assert main(["export", "mcm:mixer_s16@24", str(tmp_path)]) == 2


def test_modules_that_break_a_rule_are_none():
    graph = {
        "seconds": [1.0, 2.0, 3.0],
        "weight_bytes": [5, 5, 5],
        "tensors": [[0, 0.5, [1, 2]], [1, 0.5, [2]]],
    }
    judge = ModuleJudge(graph, {"chips": 3, "sram_bytes": 10})
    assert judge.cost([[0], [0], [1]]) == 3.0
    assert judge.profile([[0], [1], [1]]) == [1.0, 5.0, 0.0, 0.5, 0.0, 0.0]
    for wrong, words in {
        ((1,), (0,), (0,)): "earlier chip",
        ((0,), (0,), (2,)): "empty",
        ((0,), (0,), (0,)): "fit",
        ((0,), (1,), (2,)): "chain",
    }.items():
        with pytest.raises(Wrong, match=words):
            judge.cost([list(row) for row in wrong])


@pytest.mark.slow
def test_a_method_of_the_working_folder_runs_in_several_processes(tmp_path, monkeypatch):
    method(tmp_path, monkeypatch, "mine", "def place(network, chip): return [[0, 0] for _ in network['ops']]")
    words = ["--track", "one-shot", "--quick", "--split", "test", "--workers", "2", "-o", "two.json.gz"]
    assert main(["run", *words, "--method", "mine:place,default"]) == 0
    rows = files.read(tmp_path / "two.json.gz")["rows"]
    assert [row["failed"] for row in rows] == [""] * 8
