"""What tests that compile with PyTorch have in common; each begins and ends without compiled graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from clocks import Ticking
from torch import nn

from egrl_training.pytorch import asked
from egrl_training.pytorch.peak import peak_of
from egrl_training.simulator import least
from egrl_training.simulator.exact import solve

DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]

QUIET = [
    pytest.mark.filterwarnings(f"ignore::{kind}:torch.*")
    for kind in ("UserWarning", "FutureWarning", "DeprecationWarning", "RuntimeWarning")
]


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No graph of another test; and searches last for so many looks at a clock, not seconds."""
    for module in (solve, least):
        monkeypatch.setattr(module, "clock", Ticking().monotonic)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def limit_evaluations(monkeypatch: pytest.MonkeyPatch, evals: int) -> None:
    """Plans are searched for by so many evaluations where their searches would use up all of their seconds."""
    search = asked.search

    def counted(problem: Any, *, seconds: float | None, **given: Any) -> Any:
        return search(problem, evals=None if seconds is None else evals, **given)

    monkeypatch.setattr(asked, "search", counted)


def gradients(model: nn.Module, function: Callable[..., Any], inputs: Sequence[Any]) -> list[torch.Tensor]:
    """Those of all parameters after one step with fixed random numbers."""
    torch.manual_seed(5)
    model.zero_grad()
    function(*inputs).backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


def hold_to_plan(
    model: nn.Module,
    function: Callable[..., Any],
    inputs: Sequence[Any],
    wanted: Sequence[torch.Tensor],
    peak_bytes: int,
) -> None:
    """A step has the gradients of eager mode, and the peak that was planned without what is there before it."""
    for ours, eager in zip(gradients(model, function, inputs), wanted, strict=True):
        assert torch.linalg.norm(ours - eager) <= 1e-5 * torch.linalg.norm(eager)
    model.zero_grad()
    peak = peak_of(lambda: function(*inputs).backward(), inputs[0].device)
    assert peak_bytes == pytest.approx(peak, rel=0.02)
