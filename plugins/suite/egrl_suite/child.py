"""The process of one placement: reads source, network and chip from stdin, writes the placement to a pipe.

Run by `egrl_suite.program` as a file, isolated (`python -I`). It imports nothing of the suite.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
import sysconfig
from typing import Any

import numpy as np

MEMORY_BYTES = 2 << 30
NATIVE = (
    *("ctypes", "_ctypes", "_posixsubprocess", "_socket", "cffi", "_cffi_backend", "numba"),
    *(
        "readline",
        "_sqlite3",
        "_dbm",
        "_gdbm",
        "_tkinter",
        "_curses",
        "ossaudiodev",
        "_posixshmem",
        "_testcapi",
    ),
)
"""Modules that reach past Python: these, and all native ones that are neither Python's nor numpy's."""


def refuse(readable: tuple[str, ...]) -> None:
    """From now on refuse what a placement has no need of. Nothing outside this function's locals can change it.

    `readable`: folders of Python and its packages, whose Python files alone may be read.
    """
    words = (
        *(
            "os.",
            "subprocess.",
            "socket.",
            "ctypes.",
            "shutil.",
            "pty.",
            "signal.",
            "mmap.",
            "tempfile.",
            "gc.",
        ),
        *("fcntl.", "resource.", "code.", "cpython.", "glob.", "pathlib.", "syslog.", "urllib.", "ftplib."),
        *("sys.addaudithook", "sys.setprofile", "sys.settrace", "sys._current", "object."),
    )
    harmless, code = ("os.putenv", "os.unsetenv", "object.__getattr__"), "__code__"
    deny, text, starts, ends, writes = (
        PermissionError,
        str,
        str.startswith,
        str.endswith,
        os.O_WRONLY | os.O_RDWR | os.O_CREAT,
    )

    # Of Python functions, a program could change what they call: this one calls methods of `str` alone.
    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event in ("open", "os.listdir", "os.scandir"):
            path = args[0]
            if path.__class__ is not text or "/../" in path or not starts(path + "/", readable):
                raise deny("reading or writing " + text(path))
            if event == "open" and ((args[2] or 0) & writes or not ends(path, (".py", ".pyc"))):
                raise deny("reading or writing " + path)
        elif event == "object.__setattr__":
            if args[1] == code:
                raise deny(event)
        elif starts(event, words) and event not in harmless:
            raise deny(event)

    sys.addaudithook(hook)


def refuse_native() -> None:
    """From now on refuse modules of `NATIVE`, and files of others, whatever name they are given."""
    own = (sysconfig.get_path("stdlib") + "/lib-dynload/", np.__path__[0] + "/")
    native, deny, text, starts = NATIVE, PermissionError, str, str.startswith
    before, behind = str.partition, str.rpartition

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event == "import":
            path = args[1]
            is_file = path.__class__ is text
            if args[0] in native or (
                is_file
                and (
                    not starts(path, own) or "/../" in path or before(behind(path, "/")[2], ".")[0] in native
                )
            ):
                raise deny("import " + text(path or args[0]))

    sys.addaudithook(hook)


def main() -> None:
    """See the module."""
    pipe, request = int(sys.argv[1]), json.loads(sys.stdin.buffer.read())
    folder = os.path.dirname(os.path.realpath(__file__))
    roots = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")} | {
        np.__path__[0],
        folder,
    }
    readable = tuple({each + "/" for root in roots if root for each in (root, os.path.realpath(root))})
    sys.path.append(os.path.dirname(folder))  # so that a program may use the judge
    for what, most in (
        (resource.RLIMIT_CPU, int(request["seconds"]) + 1),
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, 0),
    ):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(what, (most, most))
    write, dump, tolist = os.write, json.dumps, np.asarray
    compiled = None
    try:
        compiled = compile(request["source"], "program", "exec")
        for name in [name for name in sys.modules if name.partition(".")[0] in NATIVE]:
            del sys.modules[name]  # numpy has loaded it
        refuse_native()
        refuse(readable)
        names: dict[str, Any] = {"__name__": "program"}
        exec(compiled, names)
        answer = {"mapping": tolist(names["place"](request["network"], request["chip"])).tolist()}
        text = dump(answer).encode()
    except BaseException as error:
        text = dump({"error": f"{type(error).__name__}: {error}"[:150]}).encode()
    while text:
        text = text[write(pipe, text) :]
    os._exit(0)


if __name__ == "__main__":
    main()
