"""What notebooks display, and the notebook of the examples, executed cell by cell."""

from __future__ import annotations

import ast
import html
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import egrl
from hwsim.problem import Bound
from toys import ABLE

NOTEBOOK = Path(__file__).parents[3] / "examples" / "notebook" / "notebook.ipynb"


def executed(source: str, names: dict[str, Any]) -> Any:
    """The value of the last line of a cell, as a notebook has it."""
    *body, last = ast.parse(source).body
    assert isinstance(last, ast.Expr)
    exec(compile(ast.Module(body, []), "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)


@pytest.mark.slow
def test_the_notebook_runs_and_each_cell_displays_itself(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell.get("outputs") in (None, []) for cell in notebook["cells"])
    names: dict[str, Any] = {}
    shown = [executed(cell, names)._repr_html_() for cell in cells]
    result, mapping, bound, both = shown
    assert f"{names['result'].speedup:.4f}x" in result
    assert "no cost is below" in bound
    for frame, title in ((mapping, "Where time was gained"), (both, "The runs")):
        page = html.unescape(re.fullmatch(r'<iframe [^>]*srcdoc="([^"]*)" style="[^"]*"></iframe>', frame)[1])
        assert page.startswith("<!DOCTYPE html>")
        assert f"<h2>{title}</h2>" in page


def test_names_in_what_is_displayed_are_escaped():
    assert "<b>" not in Bound(1.0, 2.0, "<b>", 0.1)._repr_html_()
    problem = ABLE["shelf"]()
    shown = egrl.show_mapping(problem, problem.baseline.mapping)
    assert "toy" in repr(shown)
    assert "<h2>Fast memory</h2>" in shown.page
    with pytest.raises(ValueError, match="expected int16"):
        egrl.show_mapping(problem, np.zeros((1, 1), np.int16))
    with pytest.raises(ValueError, match="received none"):
        egrl.show()
