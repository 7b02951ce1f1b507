"""The benchmark of what terms teach: what it names is there, its boards, and the tables of pages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import egrl
from benchmarks import terms


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
    assert learned >= plain > 1.0
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
