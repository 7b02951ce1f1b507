"""A second process that searches beside this one: `python -m mlsys2026.helper` answers requests, one per line.

A process of its own, and not one of `multiprocessing`, which would run the user's script again.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Sequence
from typing import Any

from mlsys2026.grouping import Book
from mlsys2026.instance import Instance, document_of, parse
from mlsys2026.search import Search

TURN_S = 1.0
"""Seconds of a turn of the helper."""


class Helper:
    """The other process: it takes the best so far, searches for a second, and gives back its best, again and again."""

    def __init__(self, instance: Instance, seed: int) -> None:
        self._lock = threading.Lock()
        self._best: tuple[float, list[bool]] | None = None
        self._kept: list[bool] = []
        self._closed = False
        path = os.pathsep.join(each for each in sys.path if each)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "mlsys2026.helper"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )
        first = json.dumps({"instance": json.loads(document_of(instance)), "seed": seed})
        talk = weakref.ref(self), self._process, first  # a thread that held this object would never end
        self._thread = threading.Thread(target=_talk, args=talk, daemon=True)
        self._thread.start()

    def exchange(self, kept: Sequence[bool]) -> list[bool] | None:
        """Tell the best of this process; returns the best of the other one, if it has found any since."""
        with self._lock:
            self._kept = list(kept)
            found, self._best = self._best, None
        return None if found is None else found[1]

    def close(self) -> None:
        """End the other process."""
        if self._closed:
            return
        self._closed = True
        self._process.terminate()
        self._process.wait()
        self._thread.join()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()


def _talk(helper: weakref.ref[Helper], process: subprocess.Popen[str], first: str) -> None:
    """Send a request, wait for the answer, and so on until the other process ends or nobody has the helper."""
    sender, receiver = process.stdin, process.stdout
    assert sender is not None
    assert receiver is not None
    with contextlib.suppress(OSError, ValueError):
        sender.write(first + "\n")
        while (own := helper()) is not None and not own._closed:
            print(json.dumps({"kept": own._kept, "seconds": TURN_S}), file=sender, flush=True)
            del own
            if not (answer := receiver.readline()):
                return
            told = json.loads(answer)
            if (own := helper()) is not None:
                with own._lock:
                    own._best = told["cost"], told["kept"]


def answer(search: Search, request: dict[str, Any]) -> dict[str, Any]:
    """Search as a request asks, from its schedule on if that is better."""
    if request["kept"]:
        search.offer(request["kept"])
    search.work(seconds=request["seconds"])
    return {"cost": search.cost, "kept": search.best}


def main() -> None:
    """Answer requests until there are no more."""
    first = json.loads(sys.stdin.readline())
    search = Search(Book(parse(first["instance"], "instance", "helper")), first["seed"])
    for line in sys.stdin:
        print(json.dumps(answer(search, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
