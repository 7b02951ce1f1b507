"""Programs that others wrote: what they may not do, and what none of it gains them."""

from __future__ import annotations

import json
import textwrap

import pytest

from egrl_suite import library, program
from egrl_suite.__main__ import main
from gate import gate

ONE = next(one for one in library.instances("train", ("nnpi",)) if one.name == "two_tower@nnpi")

REFUSED = {
    "reads the data": (
        """
        import sys
        def place(network, chip):
            folder = next(path for path in sys.path if path.endswith("suite"))
            return open(folder + "/egrl_suite/data/manifest.json").read()
        """,
        "PermissionError",
    ),
    "reads the data by numpy": (
        """
        import sys, numpy
        def place(network, chip):
            folder = next(path for path in sys.path if path.endswith("suite"))
            return numpy.fromfile(folder + "/egrl_suite/data/manifest.json", numpy.uint8)
        """,
        "PermissionError",
    ),
    "asks the package for the data": (
        """
        def place(network, chip):
            from egrl_suite.library import all_instances
            return all_instances()[0].default_mapping
        """,
        "PermissionError",
    ),
    "reads the data by a native module": (
        """
        import readline, sys
        def place(network, chip):
            folder = next(path for path in sys.path if path.endswith("suite"))
            readline.read_history_file(folder + "/egrl_suite/data/manifest.json")
            return readline.get_history_item(5)
        """,
        "PermissionError: import",
    ),
    "loads one under another name": (
        """
        import importlib.util
        def place(network, chip):
            path = importlib.util.find_spec("readline").origin
            spec = importlib.util.spec_from_file_location("other.readline", path)
            return importlib.util.module_from_spec(spec)
        """,
        "PermissionError: import",
    ),
    "answers lists without end": (
        """
        import os, sys
        def place(network, chip):
            os.write(int(sys.argv[1]), b"[" * 60000)
            os._exit(0)
        """,
        "no answer",
    ),
    "climbs out of Python's folder": (
        """
        import sysconfig
        def place(network, chip):
            return open(sysconfig.get_path("stdlib") + "/../../../../../etc/passwd").read()
        """,
        "PermissionError",
    ),
    "changes what paths are": (
        """
        import os, posixpath, sysconfig
        class Path(str):
            def startswith(self, *given): return True
            def endswith(self, *given): return True
        os.path.realpath = posixpath.abspath = os.lstat = lambda *given, **named: sysconfig.get_path("stdlib") + "/x.py"
        def place(network, chip):
            return open(Path("/etc/passwd")).read()
        """,
        "PermissionError",
    ),
    "answers no numbers": (
        "def place(network, chip): return [[float('nan')] * 2 for _ in network['ops']]",
        "memories",
    ),
    "answers too little": ("def place(network, chip): return [[0, 0]]", "expected numbers"),
    "has no function": ("x = 1", "KeyError"),
    "is no Python": ("def place(", "SyntaxError"),
    "raises": ("def place(network, chip): raise SystemExit(0)", "SystemExit"),
    "ends": ("import os\ndef place(network, chip): os._exit(0)", "no answer"),
    "forks": ("import os\ndef place(network, chip): os.fork()", "os.fork"),
    "starts a process": ("import subprocess", "PermissionError"),
    "loads a library": ("import ctypes", "PermissionError"),
    "lifts a limit": (
        "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (-1, -1))",
        "PermissionError",
    ),
    "looks for the guard": ("import gc\ngc.get_objects()", "PermissionError"),
    "writes a file": ("def place(network, chip): open('/tmp/suite-was-here.py', 'w')", "PermissionError"),
    "takes all memory": ("def place(network, chip): return bytearray(1 << 40)", "MemoryError"),
    "answers in its own words": (
        """
        import os, sys
        def place(network, chip):
            os.write(int(sys.argv[1]), b'{"mapping": [], "combined_score": 99}')
            return [[0, 0] for _ in network["ops"]]
        """,
        "no answer",
    ),
    "never ends": (
        """
        def place(network, chip):
            while True:
                try:
                    while True: pass
                except BaseException: pass
        """,
        "no answer",
    ),
}
KEPT = (
    "reads the data",
    "reads the data by a native module",
    "answers lists without end",
    "asks the package for the data",
    "changes what paths are",
    "raises",
    "answers no numbers",
)


def rows(source, one=ONE, seconds=2.0):
    return program._row(textwrap.dedent(source), one, seconds)


@pytest.mark.parametrize("what", gate(REFUSED, KEPT))
def test_a_program_that_takes_a_short_cut_fails_and_gains_nothing(what):
    source, said = REFUSED[what]
    row = rows(source)
    assert said in row["failed"], row
    found = program.summary([row])
    assert found["combined_score"] == 0.0
    assert found["worst_speedup"] == 1.0
    assert found["failed"]


def test_a_program_that_patches_the_judge_and_prints_is_judged_as_it_is():
    row = rows(
        """
        import os, sys
        import numpy as np
        from egrl_suite import judge
        judge.Judge.cost = lambda self, mapping: 1e-9
        def place(network, chip):
            print('{"mapping": [], "combined_score": 99}')
            os.write(1, b"combined_score: 99")
            return np.zeros(judge.Judge(network, chip).sizes.shape, int)
        """
    )
    assert not row["failed"]
    assert program.summary([row])["combined_score"] < 0


@pytest.mark.slow
def test_an_honest_program_is_scored_as_evolvers_call_it(tmp_path, capsys, monkeypatch):
    path = tmp_path / "program.py"
    path.write_text("def place(network, chip):\n    return [[1, 1] for _ in network['ops']]\n")
    monkeypatch.setattr(program, "instances", lambda *given: [ONE])
    assert main(["program", str(path)]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == program.evaluate(str(path))
    assert printed["combined_score"] != 0
    assert printed["failed"] == {}


def test_the_test_split_is_not_for_programs_that_evolve(tmp_path, capsys):
    with pytest.raises(library.SuiteError, match="train or validation"):
        program.score_file(tmp_path / "x.py", "test")
    assert main(["program", str(tmp_path / "none.py")]) == 2
    assert "expected a Python file" in capsys.readouterr().err
