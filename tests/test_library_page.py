"""The page about Python is true: all that it shows runs as it stands, and leaves nothing that was not asked for."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from plugged import ROOT, environment

PAGE = (ROOT / "docs" / "guides" / "python.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_a_snippet_runs_in_an_empty_folder(number, tmp_path):
    text = SNIPPETS[number]
    program = [sys.executable, "-W", "error", "-c", text]
    done = subprocess.run(
        program, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert bool(done.stdout) == ("print(" in text)
    assert [path.name for path in tmp_path.iterdir()] == re.findall(r'out="(\w+)"', text)


def test_the_page_searches_asks_tells_and_goes_on():
    assert len(SNIPPETS) == 8
    for word in (
        "egrl.search(",
        "search.ask(",
        "search.tell(",
        "search.result()",
        "out=",
        "resume=",
        "on_generation=",
        "ThreadPoolExecutor(",
    ):
        assert any(word in text for text in SNIPPETS), word
