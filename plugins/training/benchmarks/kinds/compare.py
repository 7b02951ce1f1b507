"""Run kinds of step in eager mode, under plain `torch.compile` and within a limit, and say what came of each."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from dataclasses import dataclass
from typing import Any

import torch
import torch._inductor.config as inductor
from benchmarks.kinds.kind import Kind, difference

import egrl_training as training

RIGHT, WRONG, REFUSED, RAISES = "right", "WRONG", "refused", "RAISES"


@dataclass(frozen=True)
class Outcome:
    """What came of a kind: one of the words above, and what was found."""

    word: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.word} {self.detail}".strip()


class EagerModeFails(Exception):
    """A kind that eager mode does not run: there is nothing to compare with."""


def _run(kind: Kind, wrap: Any, backend: str) -> list[torch.Tensor]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    torch._logging.set_logs(dynamo=logging.CRITICAL)
    with warnings.catch_warnings(), inductor.patch(fallback_random=backend == "inductor"):
        warnings.simplefilter("ignore")
        return [each.detach().clone() for each in kind.run(wrap)]


def compare(
    kind: Kind, backend: str, fraction: float | None = None, *, limit: int | None = None, seconds: float = 2.0
) -> Outcome:
    """What comes of a kind under a backend: within a fraction of its peak or a limit in bytes, or under plain
    `torch.compile` without either. Raises EagerModeFails."""
    try:
        wanted = _run(kind, lambda function, **_: function, backend)
    except Exception as error:
        raise EagerModeFails(type(error).__name__) from error
    said, limited = io.StringIO(), fraction is not None or limit is not None

    def compiled() -> list[torch.Tensor]:
        return _run(kind, lambda f, **more: torch.compile(f, backend=backend, **more), backend)

    try:
        if not limited:
            found = compiled()
        else:
            with (
                contextlib.redirect_stderr(said),
                training.memory_limit(limit, fraction=fraction, seconds=seconds),
            ):
                found = compiled()
    except Exception as error:
        name, text = type(error).__name__, str(error).strip().splitlines()
        word = REFUSED if name in ("InputError", "MemoryLimitError") else RAISES
        return Outcome(word, f"{name}: {(text or [''])[0]}"[:160])
    off = difference(found, wanted)
    most = kind.compiled_tolerance if backend == "inductor" else kind.tolerance
    if off > most and limited and kind.as_plain:
        with contextlib.suppress(Exception):  # there is nothing to be equal to
            off = difference(found, compiled())
    lines = [line for line in said.getvalue().splitlines() if "planned" in line or "proved" in line]
    return Outcome(RIGHT if off <= most else WRONG, f"{off:.1e} {' '.join(lines)}"[:200])
