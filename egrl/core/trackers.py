"""Where the metrics of generations go beside the run folder: JSON lines, MLflow, Weights & Biases.

Each is a handler of the package's log (`egrl.core.log`), which is called with the row of each generation. A tracker
that is not installed, or fails, says so in one line and is silent from then on: it never harms a run.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from egrl.core.log import LOG, NAMES, ROW
from workloads.atomic import at_once
from workloads.errors import InputError

JSON = "json:"
"""Before the name of a file for JSON lines."""
TRACKERS = ("mlflow", "wandb")
PROJECT = "egrl"


def is_tracker(name: str) -> bool:
    """Whether a --log names one of these; else it is a file for text."""
    return name in TRACKERS or name.startswith(JSON)


def open_tracker(name: str) -> None:
    """Log generations there from now on. InputError where a file of JSON lines cannot be written."""
    try:
        handler = _Lines(Path(name.removeprefix(JSON))) if name.startswith(JSON) else _KINDS[name]()
    except InputError:
        raise
    except Exception as error:  # whatever a package of someone else raises
        _say(f"--log {name}: {_reason(error)}; the run goes on without it")
        return
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)


class _Tracker(logging.Handler):
    """Is given the row of each generation; the first failure is its last word."""

    name_for_people = ""

    def emit(self, record: logging.LogRecord) -> None:
        row = getattr(record, ROW, None)
        if row is None or self.name_for_people == "":
            return
        try:
            self.keep(str(getattr(record, NAMES)), row)
        except Exception as error:  # a tracker never harms a run
            name, self.name_for_people = self.name_for_people, ""
            _say(f"--log {name}: {_reason(error)}; the run goes on without it")

    def keep(self, names: str, row: Mapping[str, Any]) -> None:
        """Keep the row of a generation of the workloads `names`."""
        raise NotImplementedError

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self.end()
        super().close()

    def end(self) -> None:
        """Nothing more comes."""


class _Lines(_Tracker):
    """A line of JSON a generation: workload, and the metrics; null where one is not a number."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.name_for_people = f"{JSON}{path}"
        try:
            self._stream = open(path, "a", encoding="utf-8", opener=at_once)  # noqa: SIM115
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise InputError(f"--log {JSON}{path}: expected a file that can be written: {why}") from error

    def keep(self, names: str, row: Mapping[str, Any]) -> None:
        finite = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}
        self._stream.write(json.dumps({"workload": names, **finite}, allow_nan=False) + "\n")
        self._stream.flush()

    def end(self) -> None:
        self._stream.close()


class _Mlflow(_Tracker):
    """A run of MLflow, where MLFLOW_TRACKING_URI says, else where MLflow itself keeps runs."""

    def __init__(self) -> None:
        super().__init__()
        self.name_for_people = "mlflow"
        self._mlflow = importlib.import_module("mlflow")
        self._begun = False

    def keep(self, names: str, row: Mapping[str, Any]) -> None:
        if not self._begun:
            self._mlflow.set_experiment(PROJECT)
            self._mlflow.start_run(run_name=names)
            self._begun = True
        self._mlflow.log_metrics(_numbers(row), step=int(row["generation"]))

    def end(self) -> None:
        if self._begun:
            self._mlflow.end_run()


class _Wandb(_Tracker):
    """A run of Weights & Biases, offline unless WANDB_MODE says otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.name_for_people = "wandb"
        os.environ.setdefault("WANDB_MODE", "offline")
        os.environ.setdefault("WANDB_SILENT", "true")
        self._wandb = importlib.import_module("wandb")
        self._run: Any = None

    def keep(self, names: str, row: Mapping[str, Any]) -> None:
        if self._run is None:
            self._run = self._wandb.init(project=PROJECT, name=names)
        self._run.log(_numbers(row), step=int(row["generation"]))

    def end(self) -> None:
        if self._run is not None:
            self._run.finish()


_KINDS = {"mlflow": _Mlflow, "wandb": _Wandb}


def _numbers(row: Mapping[str, Any]) -> dict[str, float]:
    return {k: float(v) for k, v in row.items() if isinstance(v, int | float) and math.isfinite(v)}


def _reason(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError):
        return f'{error.name} is not installed (pip install "egrl[track]")'
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


def _say(text: str) -> None:
    LOG.warning("%s", text)
    with contextlib.suppress(OSError):
        print(f"egrl: {text}", file=sys.stderr)
