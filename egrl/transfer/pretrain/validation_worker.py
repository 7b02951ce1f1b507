"""The validation worker of a pre-training: what each saved policy reaches on other workloads when it goes on there.

Source: "A Transferable Approach for Partitioning Machine Learning Models on Multi-Chip-Modules", section 4.3.

Deviations:
- It works when training has ended, on the policies of all checkpoints in as many processes as there are workers, not
  beside the training: what it finds changes no policy.
- The paper does not say how long a policy is fine-tuned on the validation graphs; `evaluations` says it here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from egrl.core import atomic, typed_tables
from egrl.core.archive import Archive
from egrl.core.failure import RunFailure
from egrl.core.flow import Flow, one_thread
from egrl.core.interrupts import Interrupted, leave_to_parent
from egrl.core.method import Context
from egrl.measure.local import InProcess
from egrl.methods import find_method
from egrl.runs.policies import Step
from hwsim.problem import Problem, Status
from workloads.atomic import no_link
from workloads.errors import InputError
from workloads.files import read_text

RECORD = "validation.jsonl"
"""A line for each policy that went on on a workload: generation, fingerprint, evaluations, speedup."""


@dataclass(frozen=True)
class Trial:
    """One policy that goes on on one problem: with a method, its settings, a number of evaluations and a seed."""

    generation: int
    path: Path
    method: str
    settings: Mapping[str, Any]
    evaluations: int
    seed: int


def best_speedup(trial: Trial, problem: Problem) -> float:
    """The best speedup of a short search that begins with the policy, cold; 0 where nothing ran."""
    from policies.store import load_policy

    definition = find_method(trial.method)
    own: Any = typed_tables.build(definition.config, dict(trial.settings), "--set method")
    archive = Archive([problem])
    context = Context([problem], archive, trial.seed, [None], load_policy(trial.path), 1)
    flow = Flow(definition.build(context, own), InProcess([problem]), context, trial.evaluations)
    best = 0.0
    with one_thread():
        while not flow.over:
            for _, found in flow.advance(trial.evaluations):
                ran = (found.status == Status.OK) & ~found.partial
                best = max(best, float(found.speedup[ran].max(initial=0.0)))
    return best


def finetune(
    steps: Sequence[Step],
    problems: Sequence[Problem],
    trial: Mapping[str, Any],
    folder: Path,
    workers: int,
    quiet: bool,
) -> list[dict[str, float]]:
    """What each policy reaches on each problem: workload -> speedup, a policy each. What is recorded is not done again.

    Args:
        steps: the policies.
        problems: of different workloads.
        trial: method, settings, evaluations and seed of every `Trial`.
        folder: of the pre-training; keeps the record.
        workers: processes.
        quiet: no progress.

    Raises:
        InputError: the record is damaged.
        Interrupted: the user stopped it; the same call goes on.
        RunFailure: a process died, or the disk refuses.
    """
    from tqdm import tqdm

    evaluations = int(trial["evaluations"])
    known = _read(folder / RECORD, evaluations)
    prints = {problem.fingerprint(): problem for problem in problems}
    missing = [
        (Trial(step.generation, step.path, **trial), fingerprint)
        for step in steps
        for fingerprint in prints
        if (step.generation, fingerprint) not in known
    ]
    bar = tqdm(total=len(missing), desc="validation", unit="search", disable=quiet or not missing)
    try:
        with bar:
            for one, name, speedup in _search(missing, prints, workers):
                known[one.generation, name] = speedup
                _append(folder / RECORD, one, name, speedup)
                bar.update()
    except KeyboardInterrupt:
        raise Interrupted(folder, None, again="the same command goes on") from None
    except (OSError, RuntimeError) as error:
        raise RunFailure(f"validation of {folder}: {error}") from error
    return [{p.about.workload: known[step.generation, name] for name, p in prints.items()} for step in steps]


def _search(
    missing: Sequence[tuple[Trial, str]], problems: Mapping[str, Problem], workers: int
) -> Iterator[tuple[Trial, str, float]]:
    """Trials with the fingerprints of their problems and what they reached, as they end."""
    if workers == 1 or not missing:
        for one, name in missing:
            yield one, name, best_speedup(one, problems[name])
        return
    with ProcessPoolExecutor(workers, get_context("spawn"), initializer=leave_to_parent) as pool:
        waiting = {pool.submit(best_speedup, one, problems[name]): (one, name) for one, name in missing}
        try:
            while waiting:
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    yield *waiting.pop(future), future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _append(path: Path, trial: Trial, fingerprint: str, speedup: float) -> None:
    line = {
        "generation": trial.generation,
        "fingerprint": fingerprint,
        "evaluations": trial.evaluations,
        "speedup": speedup,
    }
    try:
        with open(path, "a", encoding="utf-8", opener=no_link) as file:
            file.write(json.dumps(line, allow_nan=False) + "\n")
    except OSError as error:
        raise atomic.disk_failure(path, error) from error


def _read(path: Path, evaluations: int) -> dict[tuple[int, str], float]:
    """Speedups by generation and fingerprint. A last line that was cut off is dropped from the file."""
    if not path.is_file():
        return {}
    found, kept = {}, []
    lines = read_text(str(path), "a record of validation").splitlines()
    for number, text in enumerate(lines, 1):
        try:
            line = json.loads(text)
            key, speedup = (int(line["generation"]), str(line["fingerprint"])), float(line["speedup"])
            if line["evaluations"] == evaluations:
                found[key] = speedup
        except (ValueError, KeyError, TypeError) as error:
            if number == len(lines):
                break
            raise InputError(f"{path}: line {number}: expected a record of validation: {error}") from error
        kept.append(text)
    if len(kept) < len(lines):
        atomic.write(path, "".join(text + "\n" for text in kept))
    return found
