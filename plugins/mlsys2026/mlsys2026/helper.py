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
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mlsys2026.grouping import Book
from mlsys2026.instance import Instance, document_of, parse
from mlsys2026.search import Search

TURN_S = 1.0
"""Seconds of a turn of the helper."""


class _Mail:
    """The best of each side, for the other; a thread that held the helper itself would keep it from ending."""

    def __init__(self) -> None:
        self.lock, self.ours = threading.Lock(), list[bool]()
        self.theirs: list[bool] | None = None


class Helper:
    """The other process: it takes the best so far, searches for a second, and gives back its best, again and again."""

    def __init__(self, instance: Instance, seed: int) -> None:
        path = os.pathsep.join(each for each in sys.path if each)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "mlsys2026.helper"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )
        document = json.loads(document_of(instance))
        first = json.dumps({"instance": document, "divide": instance.tiles_divide, "seed": seed})
        self._mail = _Mail()
        self._thread = threading.Thread(target=_talk, args=(self._mail, self._process, first), daemon=True)
        self._thread.start()

    def exchange(self, kept: Sequence[bool]) -> list[bool] | None:
        """Tell the best of this process; returns the best of the other one, if it has found any since."""
        with self._mail.lock:
            self._mail.ours = list(kept)
            found, self._mail.theirs = self._mail.theirs, None
        return found

    def close(self) -> None:
        """End the other process."""
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


def _talk(mail: _Mail, process: subprocess.Popen[str], first: str) -> None:
    """Send a request, wait for the answer, and so on until the other process ends."""
    sender, receiver = process.stdin, process.stdout
    assert sender is not None
    assert receiver is not None
    with contextlib.suppress(OSError, ValueError):
        sender.write(first + "\n")
        while True:
            with mail.lock:
                kept = mail.ours
            sender.write(json.dumps({"kept": kept, "seconds": TURN_S}) + "\n")
            sender.flush()
            answer = receiver.readline()
            if not answer:
                return
            with mail.lock:
                mail.theirs = json.loads(answer)["kept"]


def answer(search: Search, request: dict[str, Any]) -> dict[str, Any]:
    """Search as a request asks, from its schedule on if that is better."""
    if request["kept"]:
        search.offer(request["kept"])
    search.work(seconds=request["seconds"])
    return {"cost": search.cost, "kept": search.best}


def main() -> None:
    """Answer requests until there are no more."""
    first = json.loads(sys.stdin.readline())
    instance = replace(parse(first["instance"], "instance", "helper"), tiles_divide=first["divide"])
    search = Search(Book(instance), first["seed"])
    for line in sys.stdin:
        print(json.dumps(answer(search, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
