"""Benchmarks that look into what they measure: what they name is there; and what their figures show."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import egrl
from benchmarks import critic, factors, placing_local, terms, twin_figure
from egrl.methods.twin import inference, proposer
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiProblem
from workloads.load import load


def test_the_figure_of_the_twin_shows_a_mark_only_where_every_board_has_it():
    def line(method: str, board: int, kind: str = "a", **marks: float) -> dict[str, object]:
        found = {mark.removeprefix("m"): value for mark, value in marks.items()}
        return {"workload": "bert", "kind": kind, "board": board, "method": method, "marks": found}

    lines = [
        line("twin", 0, m50=1.0, m100=1.21),
        line("twin", 1, m50=1.44),
        line("rules", 0, m50=1.1),
        line("rules", 1, m50=1.1),
        line("ea", 1, m50=2.0),
        line("twin", 0, "queues", m50=1.5),
    ]
    figure = twin_figure.draw(lines)
    first, second, third = figure.axes
    assert [axes.get_title()[-18:] for axes in figure.axes] == [f"{n} simulated boards" for n in (2, 1, 1)]
    drawn = {label: line for line in first.lines if (label := line.get_label())}
    assert "ea" not in drawn  # not on every board
    np.testing.assert_allclose(drawn["twin"].get_xydata(), [[50, 1.2]])
    np.testing.assert_allclose(drawn["the rules, measured"].get_ydata(), 1.1)
    assert second.lines[0].get_color() == drawn["twin"].get_color()
    np.testing.assert_allclose(second.lines[0].get_xydata(), [[50, 1.5]])
    # Board 1 alone has all methods.
    everybody = {line.get_label(): line.get_ydata()[0] for line in third.lines}
    assert everybody == pytest.approx({"twin": 1.44, "ea": 2.0, "the rules, measured": 1.1})


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["egrl", "half", "fused"])
def test_the_benchmark_of_the_critic_judges_without_noise_and_hides_what_it_says(variant, tmp_path, capsys):
    found = critic.run("alexnet", variant, 0, 25)
    assert found["chosen"]["25"] <= found["best"]["25"]
    bench = critic.Bench("alexnet", variant, 0)
    start, key = bench.exact.baseline.mapping[None], np.zeros(1, np.uint64)
    parts = bench.measure(start, key).parts
    assert parts is not None
    assert np.isnan(parts).any() == (variant == "half")
    assert (parts[0, 0] == parts[0, 1]) == (variant == "fused")
    assert bench.true == [1.0]
    assert bench.noisy.evaluate(start, key).speedup[0] != 1.0
    critic.table([{"workload": "alexnet", "variant": variant, "seed": 0, **found}])
    assert f"| {variant} | 1 |" in capsys.readouterr().out


@pytest.mark.exhaustive
@pytest.mark.parametrize("arm", ["twin-totals", "twin-frozen-totals"])
def test_a_frozen_twin_keeps_the_chip_file(arm, monkeypatch):
    last: list[inference.Posterior] = []
    fitted = inference.fit

    def watched(*given, **named):
        for found in fitted(*given, **named):
            last[:] = [found] if found is not None else last
            yield found

    monkeypatch.setattr(inference, "fit", watched)
    monkeypatch.setattr(proposer, "fit", watched)
    problem = NnpiProblem(load("alexnet"), load_chip("nnpi"))
    with factors.frozen(arm):
        factors.run(problem, "d", 0, arm, 50)
    (end,) = last
    moved = float(np.abs(end.near.model.theta).max())
    assert (moved < 1e-4) == ("frozen" in arm)
    assert (end.scales.noise == factors.NO_DATA) == ("frozen" in arm)


def test_an_ablation_of_the_critic_ends_with_it():
    shapes, sizes = critic.Layout.shapes, critic.residual.SIZES
    with critic.ablated("no-context"):
        assert critic.Layout.shapes(None) == []  # type: ignore[arg-type]
    with critic.ablated("no-residual"):
        assert critic.residual.SIZES == (0.0,)
    assert critic.Layout.shapes is shapes
    assert critic.residual.SIZES is sizes


@pytest.mark.parametrize(
    ("problem", "data", "log"),
    [
        ("mcm", "mcm-loads.jsonl", "papers/mcm/log/mcm.md"),
        ("mcm", "mcm-loads-all.jsonl", ""),
        ("mmap", "mmap-terms.jsonl", ""),
        ("mmap-board", "mmap-board.jsonl", ""),
    ],
)
def test_pages_have_the_tables_of_what_terms_teach(problem, data, log, capsys):
    root = Path(__file__).resolve().parents[1]
    docs = root / "docs" / "results"
    page = (docs / f"{problem.partition('-')[0]}.md").read_text(encoding="utf-8")
    page += (root / log).read_text(encoding="utf-8") if log else ""
    assert terms.main([problem, "-o", str(docs / "data" / data), "--table"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 10
    for line in lines:
        assert line in page


def test_arms_are_compared_on_the_boards_that_both_ran_on():
    def line(workload: str, arm: str, board: int, speedup: float) -> dict[str, object]:
        return {"workload": workload, "kind": "model", "board": board, "arm": arm, "marks": {"100": speedup}}

    lines = [
        line(workload, arm, 0, 1.2 if arm == "all" else 1.1)
        for workload in ("bert", "gpt2", "vgg16")
        for arm in ("all", "no-critic")
    ]
    lines += [line("bert", "all", 1, 3.0)]  # a seed that the other arm does not have
    found, networks = factors.between(lines, ("all", 100), ("no-critic", 100), ("model",))
    assert networks == 3
    assert found is not None
    assert found["mean"] == pytest.approx(np.log(1.2 / 1.1))


def test_the_page_of_boards_has_the_table_of_what_evaluations_say_one_number():
    docs = Path(__file__).resolve().parents[1] / "docs" / "results"
    page = (docs / "boards.md").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in (docs / "data" / "totals.jsonl").read_text().splitlines()]
    rows = factors.by_mark(lines, factors.TOTALS, factors.MARKS[1:]).splitlines()
    assert len(rows) == 11
    for row in rows:
        assert row in page


def test_a_board_moves_other_amounts_than_its_chip_file_says():
    bench = terms.Bench("mmap-board", "rnn_2", "egrl", 0)
    nominal, true = bench.problem.tables, bench._true.game.tables
    moved = [tables.buffer["read_bytes"] + tables.buffer["write_bytes"] for tables in (nominal, true)]
    some = moved[0] > 1000
    factor = moved[1][some] / moved[0][some]
    assert np.std(np.log(factor)) == pytest.approx(0.5, rel=0.2)
    assert factor.mean() == pytest.approx(1.0, abs=0.1)
    added = np.bincount(nominal.buffer["step"], moved[1] - moved[0], len(nominal.step))
    np.testing.assert_array_equal(true.step["traffic_bytes"] - nominal.step["traffic_bytes"], added)
    mapping, key = bench.problem.baseline.mapping[None], np.zeros(1, np.uint64)
    told = [bench.measure(mapping, key) for _ in range(40)]
    assert np.log([each.cost[0] for each in told]).std() == pytest.approx(terms.NOISE, rel=0.4)
    assert np.mean([each.speedup[0] for each in told]) == pytest.approx(bench.score(mapping[0]), rel=0.01)


def test_variants_of_another_problem_are_refused(tmp_path, capsys):
    with pytest.raises(SystemExit):
        terms.main(["mmap", "-o", str(tmp_path / "x.jsonl"), "--variants", "blind"])
    assert "--variants: expected some of egrl, alone" in capsys.readouterr().err


@pytest.mark.exhaustive
def test_the_profile_model_of_loads_is_measured_beside_one_that_learns_nothing_and_without_rules():
    learned = terms.run("mcm", "conv_lstm", "exact", 0, 50)["chosen"]["50"]
    plain = terms.run("mcm", "conv_lstm", "alone", 0, 50)["chosen"]["50"]
    untrained = terms.run("mcm", "conv_lstm", "untrained", 0, 21)["chosen"]["21"]
    assert learned > 1.2 * plain
    assert untrained > 1.0
    seen = []
    with terms.ablated("blind"):
        bench = terms.Bench("mcm", "crnn", "blind", 0)
        search = egrl.Search(bench.problem, method="egrl", start="compiler")
        while search.evaluations < 8:
            batch = search.ask()
            seen += [row.tobytes() for row in batch.proposals.mapping]
            search.tell(batch, bench.measure(batch.proposals.mapping, batch.key))
    rules = [row.tobytes() for row in bench.problem.baseline.rules().values()]
    baseline = bench.problem.baseline.mapping.tobytes()
    assert not [row for row in rules if row != baseline and row in seen[:5]]


def test_the_page_of_placing_has_the_table_of_what_a_local_search_adds(tmp_path):
    results = Path(egrl.__file__).parents[1] / "docs" / "results"
    rows = json.loads((results / "data" / "placing-local.json").read_text())
    page = (results / "placing.md").read_text(encoding="utf-8")
    assert "\n".join(placing_local.table(rows)) in page
    assert f"the {len(rows) // 3 // len(placing_local.STEPS)} pairs with" in page


def test_a_local_search_from_rankings_and_from_rules_is_as_long(monkeypatch):
    monkeypatch.setattr(placing_local, "TEST_STEPS", 3000)
    rows = placing_local.rows_of("vgg16", "nnpi")
    assert [row["steps"] for row in rows] == [*placing_local.STEPS] * 3
    for start in (placing_local.RANKINGS, placing_local.UNTRAINED, placing_local.RULES):
        found = [row["speedup"] for row in rows if row["start"] == start]
        assert found[0] <= found[-1]
        assert found[-1] > 1
    assert placing_local.rows_of("mobilenet_v2", "nnpi") == []
