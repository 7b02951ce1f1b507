"""The policies that a run or a pre-training saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from egrl.core import typed_tables
from egrl.core.plugins import check_given
from egrl.methods import find_method
from egrl.problems import KIND
from egrl.runs import folder as run_folder
from egrl.runs.folder import PRETRAINING
from egrl.runs.past_run import PastRun, with_own_inputs
from egrl.runs.resume import check_settings
from workloads.errors import InputError
from workloads.files import parse_toml, read_text
from workloads.json_text import parse_document


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
        return typed_tables.missing_code("method", self._config(), ())[1::2]

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


def read(folder: Path, problem: str = "") -> SavedPolicies:
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
