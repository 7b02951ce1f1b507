"""The log of the package, `logging.getLogger("egrl")`: generations, notes, warnings and errors, and where they go.

Nothing is kept of it unless a program sets up `logging`, or a command is given `--log`: a file of text, JSON lines,
MLflow, or Weights & Biases. Each is a handler, which gets the row of each generation. A tracker that is not
installed, or fails, says so in one line and is silent from then on: it never harms a run.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import math
import os
import sys
from collections.abc import Iterator, Mapping
from io import TextIOWrapper
from pathlib import Path
from typing import Any, cast

from workloads.errors import InputError
from workloads.files import at_once

LOG = logging.getLogger("egrl")
LOG.addHandler(
    logging.NullHandler()
)  # else logging itself prints warnings to stderr, where they stand already
ROW, NAMES = "egrl_row", "egrl_names"
"""Attributes of a record of a generation: its row of metrics, and the workloads it is of."""
FORMAT = "%(asctime)s %(levelname)s %(message)s"


class _File(logging.FileHandler):
    """A log that is not written any more once the disk refuses a line: it never harms a command."""

    _refused = False

    def _open(self) -> TextIOWrapper:
        """Without waiting for a reader, where it is a pipe."""
        return cast(TextIOWrapper, open(self.baseFilename, self.mode, encoding=self.encoding, opener=at_once))

    def emit(self, record: logging.LogRecord) -> None:
        if not self._refused:
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
            return
        self._refused = True
        with contextlib.suppress(OSError):
            print(
                f"egrl: --log {self.baseFilename!r}: {error.strerror}; nothing more is logged",
                file=sys.stderr,
            )

    def close(self) -> None:
        with contextlib.suppress(OSError):  # what is left of the line that was refused
            super().close()


def open_file(path: Path) -> None:
    """Append what is logged from now on to a file, a line with its time each. InputError where that cannot be done."""
    try:
        handler = _File(path, encoding="utf-8")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"--log {str(path)!r}: expected a file that can be written: {why}") from error
    handler.setFormatter(logging.Formatter(FORMAT))
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)


@contextlib.contextmanager
def files_closed() -> Iterator[None]:
    """Close, at the end, the files that were opened within."""
    before, level = list(LOG.handlers), LOG.level
    try:
        yield
    finally:
        for handler in [each for each in LOG.handlers if each not in before]:
            LOG.removeHandler(handler)
            handler.close()
        LOG.setLevel(level)


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
