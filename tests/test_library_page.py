"""The page about Python is true: all that it shows runs as it stands, and leaves nothing that was not asked for."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from plugged import ROOT, environment

PAGE = (ROOT / "docs" / "guides" / "python.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)


DRIVER = """
import contextlib, io, json, os, pathlib, sys, traceback
told = []
for number, text in enumerate(json.load(sys.stdin)):
    out, err = io.StringIO(), io.StringIO()
    pathlib.Path(f"folder{number}").mkdir()
    os.chdir(f"folder{number}")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            exec(compile(text, f"snippet {number}", "exec"), {"__name__": "__main__"})
        except BaseException:
            traceback.print_exc()
    told.append([out.getvalue(), err.getvalue(), os.listdir()])
    os.chdir("..")
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str, list[str]]]:
    """Of each snippet, in an empty folder of its own: what it prints, what it says on stderr, and what it leaves."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", DRIVER],
        cwd=tmp_path_factory.mktemp("page"),
        env=environment(),
        input=json.dumps(SNIPPETS),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [(out, err, left) for out, err, left in json.loads(done.stdout)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_a_snippet_runs_in_an_empty_folder(number: int, ran: list[tuple[str, str, list[str]]]) -> None:
    out, err, left = ran[number]
    assert err == ""
    assert bool(out) == ("print(" in SNIPPETS[number])
    assert left == re.findall(r'out="(\w+)"', SNIPPETS[number])


def test_the_page_searches_asks_tells_and_goes_on():
    assert len(SNIPPETS) == 9
    for word in (
        "egrl.search(",
        "search.ask(",
        "search.tell(",
        "search.result()",
        "op_seconds=",
        "search.confirm(",
        "out=",
        "resume=",
        "on_generation=",
        "ThreadPoolExecutor(",
    ):
        assert any(word in text for text in SNIPPETS), word
