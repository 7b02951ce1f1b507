"""What a board's profile says beside the chip file: on the terminal, as JSON, and on a page."""

from __future__ import annotations

import json

import numpy as np
import pytest

import egrl
from egrl.cli.main import main
from egrl.report.explaining import profiled, table
from egrl.runs.past_run import PastRun
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiProblem
from workloads.load import load

SLOW = "conv3"


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> PastRun:
    """A board that is the chip file, but for one op three times as slow, and for one that it does not know."""
    problem = NnpiProblem(load("alexnet"), load_chip("nnpi"))
    number = {name: k for k, name in enumerate(problem.space.labels[0])}
    heads, names = problem.space.heads, problem.space.nodes
    assert SLOW in names

    def board(rows):
        mapping = np.array(
            [[[number.get(row.get(head, ""), -1) for head in heads] for row in rows]], np.int16
        )
        took = problem.evaluate(mapping, np.zeros(1, np.uint64)).parts[0].astype(float)
        took[names.index(SLOW)] *= 3.0
        return {"latency_s": took.sum(), "op_seconds": dict(zip(names[:-1], took.tolist(), strict=False))}

    out = tmp_path_factory.mktemp("runs") / "r"
    egrl.search("alexnet", method="random", evals=21, out=out, evaluator=board)
    return PastRun.read(out)


def test_the_worst_predicted_op_comes_first_and_unknown_ones_not_at_all(run):
    found = profiled(run, run.best_mapping())
    assert found.names[0] == SLOW
    assert set(found.names) == set(run.problem.space.nodes[:-1])
    ratio = dict(zip(found.names, found.measured_s / found.modelled_s, strict=True))
    assert ratio.pop(SLOW) == pytest.approx(3.0, rel=1e-4)
    np.testing.assert_allclose(list(ratio.values()), 1.0, rtol=1e-4)
    assert sum(count for count, _, _ in found.by_bound().values()) == len(found.names)


def test_evaluate_shows_it_and_gives_all_as_json(run, capsys):
    assert main(["evaluate", str(run.path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = next(k for k, line in enumerate(lines) if line.startswith("profile"))
    assert lines[at + 1].split()[0] == SLOW
    assert " 3.00 " in lines[at + 1]
    assert main(["evaluate", str(run.path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)["measured"]["profile"]
    assert len(document) == len(run.problem.space.nodes) - 1
    assert document[0]["part"] == SLOW


def test_a_page_has_it_and_that_of_a_run_without_profiles_has_not(run, tmp_path):
    (section,) = table(run, run.best_mapping())
    assert section.rows[0][0] == SLOW
    assert main(["report", str(run.path), "-o", str(tmp_path / "page.html")]) == 0
    assert section.title in (tmp_path / "page.html").read_text().replace("&#39;", "'").replace("&#x27;", "'")
    egrl.search("alexnet", method="random", evals=21, out=tmp_path / "t", evaluator=lambda rows: 1e-3)
    egrl.search("alexnet", method="random", evals=21, out=tmp_path / "m")
    for name in "tm":
        past = PastRun.read(tmp_path / name)
        assert table(past, past.best_mapping()) == []
