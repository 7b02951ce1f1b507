"""Methods by name, and one search: a row of results.

MODULE:NAME names code of your own; by the names of its parameters it is

    place(network, chip) -> mapping            one placement, from what the track shows
    NAME(task, seed)  with ask() and tell()    ask() -> mapping; tell(mapping, cost, profile)
    search(task, seed)  without these          calls task.measure(mapping) until nothing is left, or returns before
    train(env)                                 acts in a Gymnasium environment (`egrl_suite.env`)

Names without a colon: `default` and `random` here, the others are egrl's (`egrl_suite.through_egrl`).
"""

from __future__ import annotations

import importlib
import inspect
import sys
import time
from typing import Any

import numpy as np

from egrl_suite.library import Instance, SuiteError, packed
from egrl_suite.tasks import OutOfBudget, Search, Task, Track


def default(task: Task, seed: int) -> Any:
    """The default's placement."""
    return task.default


def random(task: Task, seed: int) -> None:
    """Independent uniform draws."""
    rng = np.random.default_rng(seed)
    while task.left:
        task.measure(rng.integers(len(task.memories), size=task.sizes.shape))


OWN: dict[str, Search] = {"default": default, "random": random}


def method_named(name: str) -> Search:
    """Raises SuiteError if there is none."""
    if name in OWN:
        return OWN[name]
    if ":" in name.partition("[")[0]:
        return of_code(named_code(name), name)
    try:
        from egrl_suite import through_egrl
    except ModuleNotFoundError as error:
        raise SuiteError(
            f"--method {name}: expected default, random or MODULE:NAME without egrl ({error})"
        ) from None
    return through_egrl.method_named(name)


def named_code(name: str) -> Any:
    """What MODULE:NAME names; modules of the working folder count."""
    module, _, attribute = name.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise SuiteError(f"--method {name}: {error}") from None


def of_code(code: Any, name: str) -> Search:
    """Code from outside as a search, by the names of its parameters."""
    try:
        parameters = tuple(inspect.signature(code).parameters)
    except (TypeError, ValueError):
        parameters = ()
    if parameters[:2] == ("network", "chip"):
        return lambda task, seed: code(task.network, task.chip)
    if parameters[:1] == ("env",):
        return lambda task, seed: _in_environment(code, task, seed)
    if parameters[:2] == ("task", "seed"):
        return lambda task, seed: _asked(code(task, seed), task)
    raise SuiteError(
        f"--method {name}: expected parameters (network, chip), (task, seed) or (env), found ({', '.join(parameters)})"
    )


def _asked(found: Any, task: Task) -> Any:
    """What a search returned; one that can be asked is asked and told until nothing is left."""
    if not hasattr(found, "ask"):
        return found
    while task.left:
        mapping = found.ask()
        if mapping is None:
            break
        cost, profile = task.measure(mapping)
        found.tell(mapping, cost, profile)
    return None


def _in_environment(code: Any, task: Task, seed: int) -> None:
    from egrl_suite.env import PlacementEnv

    code(PlacementEnv(task, seed))


def run(instance: Instance, track: Track, budget: int, name: str, seed: int) -> dict[str, Any]:
    """One search, as a row of a file of results: what was answered at each mark, and why it failed, if it did."""
    search, task = method_named(name), Task(instance, track, budget, seed)
    begun, failed = time.process_time(), ""
    try:
        last = search(task, seed)
        if last is not None and task.left:
            task.measure(last)
    except OutOfBudget:
        pass
    except SuiteError:
        raise
    except Exception as error:
        failed = f"{type(error).__name__}: {error}"[:200]
    answers = {str(mark): packed(mapping) for mark, mapping in task.answers().items()}
    if track.marks == (1,) and not failed and task.used == 0:
        failed = "no placement"
    if not failed and task.used and not task.ran:
        failed = f"none of its placements can run: {task.wrong}"[:200]
    return {
        "method": name,
        "instance": instance.name,
        "seed": seed,
        "answers": {} if failed else answers,
        "failed": failed,
        "cpu_s": round(time.process_time() - begun, 3),
    }
