"""Calls in processes of their own, several at once, which end with the one that asked for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from egrl.core.interrupts import leave_to_parent


@dataclass(frozen=True)
class Call:
    """A function of a module with its arguments; `name` says which call it is."""

    name: str
    function: Callable[..., None]
    arguments: tuple[Any, ...]


def in_processes(calls: Sequence[Call], jobs: int) -> Iterator[tuple[str, str | None]]:
    """The names of calls as they end, and why they failed (None: they did not), a new process each.

    Where the caller stops listening, or Ctrl-C comes, those that run are ended: calls leave nothing half written.
    """
    context, waiting = get_context("spawn"), list(reversed(calls))
    running: dict[Connection, tuple[str, SpawnProcess]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                call = waiting.pop()
                listener, speaker = context.Pipe(duplex=False)
                process = context.Process(target=_call, args=(speaker, call), daemon=True)
                process.start()
                speaker.close()
                running[listener] = call.name, process
            for ready in wait(list(running)):
                assert isinstance(ready, Connection)
                name, process = running[ready]
                try:
                    failure = ready.recv()
                except EOFError:
                    failure = "its process was ended from outside"
                process.join()
                ready.close()
                del running[ready]
                yield name, failure
    finally:
        for _, process in running.values():
            process.kill()
        for listener, (_, process) in running.items():
            process.join()
            listener.close()


def _call(speaker: Connection, call: Call) -> None:
    leave_to_parent()
    try:
        call.function(*call.arguments)
    except Exception as error:
        speaker.send(f"{type(error).__name__}: {error}")
    else:
        speaker.send(None)
