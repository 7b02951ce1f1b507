"""Zero-shot transfer: policies saved in training, placed on other workloads with no training.

Source: EGRL, section 5, "Generalizability properties", and Figure 4.

Deviations:
- A policy proposes one mapping per workload (`egrl.methods.players`): a graph network its most probable choices, which
  the paper leaves open; an agent that plays a game one game.
- Hidden layers and output head are kept alike: decisions and features are the same for every workload of a chip.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from egrl import api
from egrl.core import typed_tables
from egrl.methods import find_method
from egrl.methods.players import Policies
from egrl.problems import KIND, build_problem, find_problem
from egrl.runs import folder as run_folder
from egrl.runs.folder import PRETRAINING
from egrl.runs.past_run import PastRun, course_of, with_own_inputs
from egrl.runs.resume import KINDS, check_settings
from hwsim.problem import Problem, Status
from workloads.errors import InputError
from workloads.files import parse_toml, read_text
from workloads.json_text import parse_document
from workloads.plugins import check_given

DOCUMENT = "transfer.json"
TRANSFER, VERSION = "transfer", 1


@dataclass(frozen=True)
class Target:
    """A workload that policies are placed on, as `transfer.json` holds it.

    Attributes:
        workload: its name.
        fingerprint: of the problem.
        baseline: the compiler's cost.
        speedup: over the compiler, of each saved policy; 0 where its mapping does not run.
        rival: what texts call the baseline, such as "the compiler".
    """

    workload: str
    fingerprint: str
    baseline: float
    speedup: tuple[float, ...]
    rival: str


def build_targets(source: SavedPolicies, workloads: Sequence[str]) -> list[Problem]:
    """The workloads (names or files) on the chip, and with the settings, that the policies were trained with."""
    kind = find_problem(source.problem).load().config
    settings: Any = typed_tables.build(kind, source.settings, f"{source.folder}: problem")
    return [build_problem(source.problem, workload, source.chip, settings) for workload in workloads]


def load(steps: Sequence[Step], code: Sequence[str] = ()) -> Policies:
    """The policies of some steps, of which the user named the `code`.

    InputError where one is damaged, or otherwise than the first, or is code in a file that was not named.
    """
    return Policies([step.path for step in steps], code)


def place(policies: Policies, problem: Problem) -> Target:
    """Measure each policy's mapping of a workload once, without training. InputError where one does not fit."""
    mapping = policies.greedy(problem)
    found = problem.evaluate(mapping, np.zeros(len(mapping), dtype=np.uint64))
    speedup = np.where(found.status == Status.OK, found.speedup, 0.0)
    about, cost = problem.about, problem.baseline.cost
    return Target(about.workload, problem.fingerprint(), cost, tuple(speedup.tolist()), about.baseline_name)


def zero_shot(source: SavedPolicies, targets: Sequence[Problem], code: Sequence[str] = ()) -> list[Target]:
    """Every saved policy on every target; `code` is what the user named of it."""
    policies = load(source.steps, code)
    return [place(policies, problem) for problem in targets]


def document(
    source: SavedPolicies, targets: Sequence[Target], finetuned: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """What transfer.json holds."""
    return {
        "kind": TRANSFER,
        "version": VERSION,
        "policies": source.name,
        "trained_on": list(source.trained_on),
        "generations": [step.generation for step in source.steps],
        "evaluations": [step.evaluations for step in source.steps],
        "chosen": source.chosen,
        "targets": [{**vars(target), "speedup": list(target.speedup)} for target in targets],
        "finetuned": list(finetuned),
    }


def read(folder: Path) -> dict[str, Any] | None:
    """transfer.json of a folder; None where there is none. InputError where it is damaged."""
    path = folder / DOCUMENT
    if not path.is_file():
        return None
    found = parse_document(read_text(path, "a transfer"), str(path), TRANSFER, VERSION)
    try:
        steps = len(found["generations"])
        sizes = [len(found["evaluations"]), *(len(target["speedup"]) for target in found["targets"])]
        numbers = [float(s) for target in found["targets"] for s in target["speedup"]]
        numbers += [float(int(number)) for key in ("generations", "evaluations") for number in found[key]]
        names = [str(target["workload"]) + target["fingerprint"] for target in found["targets"]]
        tuned = [str(row["workload"]) for row in found["finetuned"]]
        names += [str(found["policies"]), *map(str, found["trained_on"])]
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: damaged: {type(error).__name__}: {error}") from error
    if any(size != steps for size in sizes) or not all(map(math.isfinite, numbers)) or not steps:
        raise InputError(f"{path}: damaged: expected a finite speedup for each of {steps} policies")
    del names, tuned
    return found


def merge(old: Mapping[str, Any] | None, new: dict[str, Any]) -> dict[str, Any]:
    """The new document with what an earlier one says of other targets of the same policies."""
    if old is None or any(old[key] != new[key] for key in ("generations", "trained_on")):
        return new
    result = dict(new)
    for key in ("targets", "finetuned"):
        fresh = {row["workload"] for row in new[key]}
        result[key] = [row for row in old[key] if row["workload"] not in fresh] + new[key]
    return result


NEAR = 0.99
"""The share of the best from scratch that counts as near."""


def compare(
    source: SavedPolicies,
    workload: str,
    problem: Problem,
    evals: int,
    seed: int,
    workers: int,
    folder: Path,
    quiet: bool,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Search a workload twice, from the deployed policy and from scratch, and count evaluations.

    Args:
        source: whose deployed policy, method and settings are used.
        workload: name or file of `problem`.
        problem: what is searched; its name, fingerprint, `seed` and the policy's generation name the folders.
        evals, seed, workers: of both searches.
        folder: gets a folder for each search, which goes on where it is.
        quiet: no progress.
        say: called with the name of each search that begins.

    Returns the numbers of `row`.
    """
    stem = f"{problem.about.workload}-{problem.fingerprint()[:8]}-s{seed}"
    scratch, tuned = folder / f"{stem}-scratch", folder / f"{stem}-from-generation-{source.chosen}"
    for what, path, init in (
        ("from the policy", tuned, str(source.deployed.path)),
        ("from scratch", scratch, ""),
    ):
        say(f"{problem.about.workload}, {what}")
        _search(source, workload, evals, seed, workers, init, path, quiet)
    return {"workload": problem.about.workload, "seed": seed, **row(tuned, scratch, evals)}


def row(finetuned: Path, scratch: Path, evals: int) -> dict[str, Any]:
    """What the first `evals` evaluations of two run folders say.

    `scratch` and `finetuned` are the best speedups; `scratch_evaluations` those that scratch needed for its best,
    `finetuned_evaluations` those that fine-tuning needed to be as good, null where it was not; `saved` is their
    difference. `near` has the same three for `NEAR` of scratch's best.
    """
    curves = {path: [point for point in _curve(path) if point[0] <= evals] for path in (finetuned, scratch)}
    goal = curves[scratch][-1][1]

    def needed(share: float) -> dict[str, int | None]:
        reached = [
            next((e for e, best in curves[path] if best >= share * goal), None)
            for path in (scratch, finetuned)
        ]
        before, after = reached
        saved = None if before is None or after is None else before - after
        return {"scratch_evaluations": before, "finetuned_evaluations": after, "saved": saved}

    return {
        "evaluations": curves[scratch][-1][0],
        "scratch": goal,
        "finetuned": curves[finetuned][-1][1],
        **needed(1.0),
        "near": needed(NEAR),
    }


def _search(
    source: SavedPolicies,
    workload: str,
    evals: int,
    seed: int,
    workers: int,
    init: str,
    path: Path,
    quiet: bool,
) -> None:
    """Search as far as it is missing: what a folder has beyond `evals` is left alone."""
    if (path / run_folder.METRICS).is_file() and _curve(path)[-1][0] >= evals:
        return
    if (path / run_folder.CONFIG).is_file():
        named = {"problem": source.problem, "method": source.method}
        again: dict[str, Any] = {
            name: named[name] for name, kind in KINDS.items() if kind.refers(named[name])
        }
        api.search(
            resume=path, evals=evals, workers=workers, quiet=quiet, settings=source.code_settings(), **again
        )
        return
    tables = {"problem": source.settings, "method": source.method_settings}
    settings = [f"{key}={json.dumps(value)}" for key, value in typed_tables.dotted_keys(tables).items()]
    api.search(
        workload,
        out=path,
        settings=settings,
        quiet=quiet,
        problem=source.problem,
        chip=source.chip,
        method=source.method,
        init=init,
        evals=evals,
        seed=seed,
        workers=workers,
        start="cold",
    )


def _curve(path: Path) -> list[tuple[int, float]]:
    """(evaluations, best speedup so far) a generation."""
    course = course_of(path, {})
    return list(zip(course.evaluations.tolist(), course.best.tolist(), strict=True))


@dataclass(frozen=True)
class Step:
    """A policy that was saved in training: when, and where it lies."""

    generation: int
    evaluations: int
    path: Path


@dataclass(frozen=True)
class SavedPolicies:
    """Policies of one training, and the problem they were trained for.

    Attributes:
        folder: where they come from.
        name: for people: the method and what it was trained on.
        trained_on: names of the workloads.
        problem: name of the problem; `chip` its chip (name or file), `settings` its settings.
        method, method_settings: of the run; a policy pre-trained by `es` goes on with the default method.
        seed: of the training.
        steps: in the order of training; never empty.
        chosen: number of the generation whose policy is the one to deploy.
    """

    folder: Path
    name: str
    trained_on: tuple[str, ...]
    problem: str
    chip: str
    settings: Mapping[str, Any]
    method: str
    method_settings: Mapping[str, Any]
    seed: int
    steps: tuple[Step, ...]
    chosen: int

    def code_settings(self) -> list[str]:
        """What `--set` takes for the code that the method's settings name, "method.KEY=MODULE:NAME" each."""
        return typed_tables.missing_code(self._config(), ())[1::2]

    def check_code(self, settings: Sequence[str]) -> None:
        """InputError where the method's settings name code that the user's `--set` `settings` do not."""
        check_settings(self._config(), settings, str(self.folder), ["egrl", "transfer", str(self.folder)])

    def _config(self) -> Any:
        kind = find_method(self.method).config
        return typed_tables.build(kind, self.method_settings, f"{self.folder}: method")

    @property
    def deployed(self) -> Step:
        """The step that was chosen."""
        return next(step for step in self.steps if step.generation == self.chosen)


def read_policies(folder: Path, problem: str = "") -> SavedPolicies:
    """The policies in a folder of `egrl run` or `egrl pretrain`, of which the user may have named the `problem`.

    InputError where there are none, the folder is damaged, or its problem is code in a file that the user did not name.
    """
    if (folder / PRETRAINING).is_file():
        return _of_pretraining(folder, problem)
    if _is_pretraining(folder):
        raise InputError(
            f"{folder}: expected a finished pre-training, found one under way; the same egrl pretrain goes on"
        )
    run = PastRun.read(folder, problem)
    check_given(str(folder / run_folder.CONFIG), (KIND, run.options.problem, problem))
    last = int(run.summary["evaluations"])
    steps = tuple(
        Step(generation, min(generation * run.options.generation_evals, last), path)
        for generation, path in run.policies().items()
    )
    return SavedPolicies(
        folder,
        f"{run.summary['method']} on {run.summary['workload']}",
        (run.summary["workload"],),
        run.options.problem,
        with_own_inputs(run.options, folder).chip,
        run.settings["problem"],
        run.options.method,
        run.settings["method"],
        run.options.seed,
        steps,
        steps[-1].generation,
    )


def _is_pretraining(folder: Path) -> bool:
    """Whether the folder is that of a pre-training, finished or not."""
    path = folder / run_folder.CONFIG
    return (
        path.is_file()
        and parse_toml(read_text(path, "a config file"), str(path)).get("kind") == "pretraining"
    )


def _of_pretraining(folder: Path, problem: str) -> SavedPolicies:
    path = folder / PRETRAINING
    document = parse_document(read_text(path, "a pre-training"), str(path), "pretraining", 1)
    files = run_folder.policies_in(folder)
    try:
        options, chosen = document["options"], int(document["chosen"]["generation"])
        goes_on = document["goes_on"]
        steps = tuple(
            Step(int(row["generation"]), int(row["evaluations"]), files[int(row["generation"])])
            for row in document["steps"]
        )
        found = SavedPolicies(
            folder,
            f"pre-trained on {len(document['trained_on'])} workloads",
            tuple(document["trained_on"]),
            str(options["problem"]),
            str(folder / document["chip_file"]) if document["chip_file"] else str(options["chip"]),
            document["settings"],
            str(goes_on["method"]),
            dict(goes_on["settings"]),
            int(options["seed"]),
            steps,
            chosen,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: damaged: {type(error).__name__}: {error}") from error
    check_given(str(path), (KIND, found.problem, problem))
    if all(step.generation != chosen for step in steps):
        raise InputError(f"{path}: damaged: chosen: expected a generation among the steps, found {chosen}")
    return found
