"""egrl report: one page that can be trusted: what it says is the run's, what it shows is escaped, it loads nothing."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from commands import refuse

import egrl
from egrl.cli.main import main
from egrl.report import page as pages
from egrl.report import render
from egrl.report.changes import gained, memory, nodes
from egrl.report.page import MOST_BYTES, page_of, sections
from egrl.report.searching import FIRST, predictions
from egrl.runs.past_run import PastRun
from hwsim.family import Model
from hwsim.sections import Bars, Box, Branch, Line, Lines, MemoryMap, MemoryMaps, Table, Trees
from toys import ABLE
from workloads.text import with_unit

ROOT = Path(__file__).parents[3]
EVIL = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
VOID = {"meta", "input", "link", "br", "img"}


class Reader(HTMLParser):
    """Checks that tags close in order, and keeps their names and attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:  # a self-closed mark of SVG is told as opened and closed
            assert self.open.pop() == tag


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two short runs on AlexNet."""
    folder = tmp_path_factory.mktemp("runs")
    found = [folder / f"s{seed}" for seed in (0, 1)]
    for seed, out in enumerate(found):
        argv = ["run", "--workload", "alexnet", "--method", "annealing", "--gens", "3", "--seed", str(seed)]
        assert main([*argv, "--quiet", "--out", str(out)]) == 0
    return found


@pytest.mark.slow
def test_a_page_says_what_the_run_reached_and_loads_nothing(runs, capsys, tmp_path):
    capsys.readouterr()
    assert main(["report", str(runs[0])]) == 0
    path = Path(capsys.readouterr().out.strip())
    assert path == runs[0] / "report.html"
    page, summary = path.read_text(encoding="utf-8"), json.loads((runs[0] / "summary.json").read_text())
    path.unlink()
    read = Reader(page)
    assert len(page.encode()) < MOST_BYTES
    assert f"<h1>{summary['best']['speedup']:.4f}x</h1>" in page
    assert f"{summary['evaluations']} evaluations" in page
    loads = {key for _, attributes in read.tags for key in attributes if key in ("src", "srcset", "action")}
    assert not loads
    assert all((a.get("href") or "#").startswith("#") for _, a in read.tags)
    for title in ("Where time was gained", "What moved", "Memory over time", "Ops", "The search", "Settings"):
        assert f"<h2>{title}</h2>" in page
    refuse(capsys, ["report", str(tmp_path)], "summary.json")
    refuse(capsys, ["report", str(runs[0]), "-o", "page.pdf"], ".html")


SHORT = ["run", "--workload", "alexnet", "--method", "annealing", "--gens", "1"]


def test_a_run_leaves_its_page_and_prints_the_path_last(tmp_path, capsys):
    out = tmp_path / "r"
    assert main([*SHORT, "--out", str(out), "--report"]) == 0
    path = Path(capsys.readouterr().out.splitlines()[-1])
    assert path == out / "report.html"
    page = path.read_text(encoding="utf-8")
    assert page == page_of([PastRun.read(out)])
    assert main(["report", str(out)]) == 0
    assert path.read_text(encoding="utf-8") == page
    assert main(["run", "--resume", str(out), "--gens", "2", "--report"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(path)
    assert "42 evaluations" in path.read_text(encoding="utf-8")


def test_with_json_the_path_of_the_page_is_a_note_and_with_quiet_it_is_not_said(tmp_path, capsys):
    assert main([*SHORT, "--out", str(tmp_path / "a"), "--report", "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["evaluations"] == 21
    assert captured.err.endswith(f"egrl: the page of the run: {tmp_path / 'a' / 'report.html'}\n")
    assert main([*SHORT, "--out", str(tmp_path / "b"), "--report", "--quiet"]) == 0
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""
    assert (tmp_path / "b" / "report.html").is_file()
    assert main([*SHORT, "--out", str(tmp_path / "c"), "--quiet"]) == 0
    assert not (tmp_path / "c" / "report.html").exists()


def test_a_run_whose_page_cannot_be_written_says_its_result_first(tmp_path, capsys):
    out = tmp_path / "r"
    assert main([*SHORT, "--out", str(out), "--quiet"]) == 0
    (out / "report.html").mkdir()
    assert main(["run", "--resume", str(out), "--gens", "2", "--report"]) != 0
    captured = capsys.readouterr()
    assert f"run folder: {out}" in captured.out
    assert captured.err.splitlines()[-1].startswith("egrl: error: ")


@pytest.mark.exhaustive
def test_equal_runs_give_equal_pages_but_for_times(runs, tmp_path):
    page = page_of([PastRun.read(runs[0])])
    assert page == page_of([PastRun.read(runs[0])])
    moved = Path(shutil.copytree(runs[0], tmp_path / "moved"))
    assert page_of([PastRun.read(moved)]) == page.replace(str(runs[0]), str(moved))


def test_what_gained_the_time_adds_up_to_the_latencies(runs):
    past = PastRun.read(runs[0])
    problem, best = past.problem, past.best_mapping()
    gains, causes, moved = gained(problem, best)
    assert isinstance(gains, Table)
    assert isinstance(causes, Bars)
    assert isinstance(moved, Table)
    before, after = (sum(values) for values in causes.series.values())
    assert before == pytest.approx(problem.baseline.cost)
    assert after == pytest.approx(past.summary["best"]["cost"], rel=1e-6)
    live = problem.space.live
    differ = (problem.baseline.mapping != best) & live
    assert sum(row[3] for row in moved.rows) == differ.sum()
    assert sum(row[4] for row in moved.rows) == problem.space.size_bytes[differ].sum()
    assert sum(row[4] for row in gains.rows) == pytest.approx(before - after, abs=1e-15)
    assert all(row[4] == row[2] - row[3] for row in gains.rows)
    assert sum(row[1] for row in gains.rows) == len(best)
    own = {moved: row for moved, *row in gains.rows}
    unmoved = own.get("none of their own tensors", [0])[0]
    assert unmoved == len(best) - differ.any(axis=1).sum()
    table = nodes(problem, best)
    gain = [name for name, _ in table.columns].index("gain")
    assert sum(row[gain] for row in table.rows) == pytest.approx(before - after)
    assert np.array_equal(table.changed, differ.any(axis=1))


def test_boxes_of_a_memory_map_never_overlap_and_end_with_the_inference(runs):
    past = PastRun.read(runs[0])
    (found,) = memory(past.problem, past.best_mapping())
    assert isinstance(found, MemoryMaps)
    for shown in found.maps:
        assert shown.edges[-1] == pytest.approx(
            past.problem.model_cost(
                past.best_mapping() if shown.label == "the best" else past.problem.baseline.mapping
            )
        )
        boxes = sorted(shown.boxes, key=lambda box: box.first)
        for number, one in enumerate(boxes):
            for other in boxes[number + 1 :]:
                apart = one.end <= other.first or other.end <= one.first
                below = one.offset_bytes + one.size_bytes <= other.offset_bytes
                assert apart or below or other.offset_bytes + other.size_bytes <= one.offset_bytes


@pytest.mark.slow
def test_the_sources_have_all_evaluations(runs):
    past = PastRun.read(runs[0])
    table = next(section for section in sections(past) if section.title == "Who found what")
    assert sum(row[1] for row in table.rows) == past.summary["evaluations"]
    assert max(row[3] for row in table.rows) == pytest.approx(past.summary["best"]["speedup"], abs=1e-6)


def test_a_board_is_never_mistaken_for_the_model(tmp_path):
    board = f"{sys.executable} {ROOT / 'examples' / 'board' / 'board.py'}"
    argv = ["run", "--workload", "alexnet", "--method", "random", "--evals", "4", "--quiet", "--evaluator"]
    assert main([*argv, board, "--out", str(tmp_path / "r")]) == 0
    past = PastRun.read(tmp_path / "r")
    found = {section.title: section for section in sections(past)}
    assert "not the board's" in found["Where time was gained"].says
    measured = found["Predicted against measured"].lines[0]
    evaluations = past.evaluations()
    assert len(measured.x) == len(measured.y) == 4
    assert list(measured.y) == evaluations.cost.tolist()
    assert list(measured.x) == [past.problem.model_cost(mapping) for mapping in evaluations.mapping]


@pytest.mark.slow
def test_what_the_twin_thought_is_of_what_was_measured_before(tmp_path):
    few = ["method.candidates=40", "method.steps=200"]
    told = egrl.Search("alexnet", method="twin", settings=few, out=tmp_path / "r")
    family = told.problem.family
    board = Model(family.nominal, np.random.default_rng(1).normal(0.0, 1.0, len(family.parameters)))
    while told.evaluations < 60:
        batch = told.ask(limit=60 - told.evaluations)
        told.tell(batch, family.predict(board, batch.mapping).tolist())
    told.close()
    past = PastRun.read(tmp_path / "r")
    found = next(section for section in sections(past) if section.title == "Predicted against measured")
    twin, file = found.lines[:2]
    assert [line.label for line in found.lines] == ["the twin", "the chip file", "equal"]
    assert len(file.x) == len(twin.x) + FIRST
    assert list(twin.y) == list(file.y)[FIRST:]
    error = {line.label: np.median(np.abs(np.array(line.x) / np.array(line.y) - 1)) for line in (twin, file)}
    assert error["the twin"] < 0.5 * error["the chip file"]
    assert "the twin, which predicts each from those measured before it" in found.says
    spoilt = past.evaluations().cost.copy()
    spoilt[FIRST + 10 :] *= 2.0
    again = predictions(past, dataclasses.replace(past.evaluations(), cost=spoilt))[0].lines[0]
    assert list(again.x)[:FIRST] == list(twin.x)[:FIRST]
    assert list(again.x)[FIRST:] != list(twin.x)[FIRST:]


@pytest.mark.slow
def test_several_runs_are_compared_and_the_fastest_is_shown(runs, tmp_path, capsys):
    out = tmp_path / "both.html"
    assert main(["report", *map(str, runs), "-o", str(out)]) == 0
    page = out.read_text(encoding="utf-8")
    Reader(page)
    speedups = [PastRun.read(run).summary["best"]["speedup"] for run in runs]
    assert f"<h1>{max(speedups):.4f}x</h1>" in page
    assert "seed 0" in page
    assert "seed 1" in page
    other = tmp_path / "other"
    argv = ["run", "--workload", "resnet18", "--method", "annealing", "--evals", "2", "--quiet"]
    assert main([*argv, "--out", str(other)]) == 0
    refuse(capsys, ["report", str(runs[0]), str(other), "-o", str(out)], "one workload")


def test_names_are_escaped_wherever_they_stand():
    shown = [
        Table(EVIL, EVIL, [(EVIL, ""), (EVIL, "B")], [[EVIL, 3]] * 20, [True] * 20),
        Bars(EVIL, EVIL, [EVIL], {EVIL: [1.0]}, "s", 2.0),
        MemoryMaps(EVIL, EVIL, [MemoryMap(EVIL, EVIL, 9, [0, 1], [Box(EVIL, EVIL, 0, 1, 0, 3)])], "", EVIL),
        Trees(EVIL, EVIL, {EVIL: Branch(EVIL, [Branch(EVIL)])}),
        Lines(EVIL, EVIL, EVIL, EVIL, [Line(EVIL, [0, 1], [0, 1])], {EVIL: 0.5}),
    ]
    page = render.page(EVIL, EVIL, EVIL, shown)
    tags = [tag for tag, _ in Reader(page).tags]
    assert tags.count("script") == 1
    assert "img" not in tags
    assert page.count("alert(1)") > 20


def test_an_op_with_an_evil_name_gets_through_a_whole_run(tmp_path, capsys):
    argv = ["run", "--workload", "alexnet", "--evals", "2", "--method", "random", "--quiet"]
    assert main([*argv, "--out", str(tmp_path / "a")]) == 0
    network = json.loads((tmp_path / "a" / "workload.json").read_text())
    first = network["ops"][0]["name"]
    evil = json.loads(json.dumps(network).replace(json.dumps(first), json.dumps("</script>")))
    (tmp_path / "evil.json").write_text(json.dumps(evil))
    out = tmp_path / "b"
    argv = ["run", "--workload", str(tmp_path / "evil.json"), "--evals", "2", "--method", "random"]
    assert main([*argv, "--quiet", "--out", str(out)]) == 0
    assert main(["report", str(out)]) == 0
    page = (out / "report.html").read_text(encoding="utf-8")
    assert [tag for tag, _ in Reader(page).tags].count("script") == 1
    assert "&lt;/script&gt;" in page


@pytest.mark.slow
def test_a_table_and_a_map_that_are_cut_say_so_and_keep_what_changed():
    rows = [[f"op{n}", n] for n in range(render.MOST_ROWS + 50)]
    changed = [n >= len(rows) - 5 for n in range(len(rows))]
    shown = render.page("", "", "", [Table("t", "", [("op", ""), ("n", "")], rows, changed)])
    assert shown.count("<tr>") + shown.count("<tr class") == render.MOST_ROWS + 1
    assert f"{render.MOST_ROWS:,} of {len(rows):,} rows" in shown
    assert shown.count('<tr class="changed"') == 5
    boxes = [Box(f"b{n}", "k", 0, 1, 10 * n, 10) for n in range(4100)]
    page = render.page("", "", "", [MemoryMaps("m", "", [MemoryMap("l", "m", 1, [0, 1], boxes)])])
    assert page.count("<rect") == 4000
    assert "4,000 largest of 4,100 boxes" in page


def test_the_first_sentence():
    best = {"speedup": 1.07254, "cost": 1.0, "unit": "s"}
    summary = {
        "problem": "nnpi",
        "workload": "bert",
        "chip": "nnpi",
        "about": {"rival": "the compiler"},
        "best": best,
    }
    summary |= {"gap": 0.0129, "evaluations": 4200, "seconds": 280.4}
    told, near = "The speedup is over the compiler.", "Within 1.29% of the best possible."
    took = "The search took 4,200 evaluations, 280 s."
    assert pages.sentence_of(summary) == f"{told} {near} {took}"
    whole = {**summary, "baseline": {"cost": 107e-6}, "bound": 98e-6, "best": {**best, "cost": 1e-4}}
    costs = "The best mapping costs 100 us instead of 107 us, estimated by a model, not measured; no mapping costs less"
    costs += " than 98 us."
    gained = "Proven limit 1.0919x: at most 9.19% can be gained over the compiler; found: 7.25%."
    assert pages.sentence_of(whole) == f"{told} {costs} {near} {gained} {took}"
    assert "Proven to be the best possible" in pages.sentence_of({**summary, "gap": 0.0})
    assert (
        pages.sentence_of({**summary, "best": None})
        == "No valid mapping was found in 4,200 evaluations, 280 s."
    )
    board = {**summary, "evaluator": {"speedup_interval": [1.01, 1.13]}}
    assert "Its 95% interval is 1.0100x to 1.1300x." in pages.sentence_of(board)


def test_numbers_are_in_the_unit_that_reads_best():
    assert [with_unit(v, "B") for v in (0, 1536, 3 * 2**20)] == ["0 B", "1.5000 KiB", "3 MiB"]
    assert [with_unit(v, "s") for v in (0.0, 2e-5, 1.25)] == ["0 s", "20.00 us", "1.2500 s"]


@pytest.mark.parametrize("name", ABLE)
def test_every_toy_has_what_its_capabilities_give(name):
    problem = ABLE[name]()
    best = problem.baseline.mapping
    found = [*gained(problem, best), *memory(problem, best), nodes(problem, best)]
    Reader(render.page("toy", "1x", "", found))
    assert len(found[-1].rows) == len(problem.space.nodes)


@pytest.mark.slow
def test_a_browser_finds_that_search_sort_and_hover_work(runs, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import browser

    path = browser.browser()
    if path is None or sys.platform != "linux":
        pytest.skip("no Chromium is installed")
    page = tmp_path / "page.html"
    page.write_text(page_of([PastRun.read(runs[0])]), encoding="utf-8")
    found = browser.trial(path, page)
    assert found["tables"] >= 2
    assert found["marks"] > 40
    broken = tmp_path / "broken.html"
    broken.write_text(page.read_text("utf-8").replace("row.hidden = !fits", "row.hidden = fits"), "utf-8")
    with pytest.raises(RuntimeError, match="search"):
        browser.trial(path, broken)


@pytest.mark.slow
def test_the_page_is_dataclasses_all_the_way(runs):
    for section in sections(PastRun.read(runs[0])):
        assert dataclasses.is_dataclass(section)
        assert not re.search("<[a-z]", section.title + section.says)


@pytest.mark.slow
def test_a_search_of_two_evaluations_is_a_sentence_and_no_figure(runs, tmp_path):
    short = tmp_path / "exact"
    argv = [
        "run",
        "--workload",
        "alexnet",
        "--method",
        "exact",
        "--set",
        "method.seconds=600",
        "--out",
        str(short),
    ]
    assert main([*argv, "--quiet"]) == 0
    found = {section.title: section for section in sections(PastRun.read(short))}
    assert "The search" not in found
    assert re.match(
        r"exact made 2 evaluations in \d+\.\d s; the best, by \w+, was evaluation \d\. ",
        found["Who found what"].says,
    )
    assert "The search" in {section.title for section in sections(PastRun.read(runs[0]))}
    assert "The searches" not in page_of([PastRun.read(short), PastRun.read(short)])
    assert "The searches" in page_of([PastRun.read(short), PastRun.read(runs[0])])


def test_times_of_a_table_are_in_one_unit_even_where_a_column_is_all_zeros():
    columns = [("what", ""), ("less", "s"), ("more", "s"), ("net gain", "s"), ("size", "B")]
    rows = [["a", 3e-6, 0.0, 3e-6, 2048], ["b", 5e-6, 0.0, 5e-6, 4096]]
    shown = render.table(Table("t", "", columns, rows))
    assert [unit for _, unit, _ in shown["columns"]] == ["", "us", "us", "us", "KiB"]
    assert [text for text, _ in shown["rows"][0][1]] == ["a", "3", "0", "3", "2"]
