"""Training by several processes: what lies beside a graph is counted, or the plan is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed, nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import egrl_training
from compiling import QUIET, fresh  # noqa: F401  (a fixture of all)
from egrl_training.pytorch.fit_report import ALL
from egrl_training.pytorch.limit import MemoryLimitError
from egrl_training.pytorch.peak import peak_of
from workloads.errors import InputError

pytestmark = QUIET
ROWS, WIDTH = 64, 128


class Net(nn.Module):
    """The mean square of what some layers make; one of them is frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(part for _ in range(3) for part in (nn.Linear(WIDTH, WIDTH), nn.GELU()))
        )
        self.layers[2].requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x).square().mean()


def compiled(model: nn.Module) -> Any:
    return torch.compile(model, backend="aot_eager")


INSIDE: dict[str, Callable[..., Any]] = {
    "what exchanges is compiled": lambda net, **given: compiled(DistributedDataParallel(net, **given)),
    "what is compiled is exchanged": lambda net, **given: DistributedDataParallel(compiled(net), **given),
}


@pytest.fixture
def alone() -> Iterator[None]:
    """A group of one process."""
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def planned_and_measured(kind: str, is_view: bool) -> tuple[int, int]:
    """Bytes at the peak of the third step, which finds the buckets as they stay."""
    net, x = Net(), torch.randn(ROWS, WIDTH)
    with egrl_training.memory_limit(fraction=1.0) as plans:
        model = INSIDE[kind](net, gradient_as_bucket_view=is_view)

    def step() -> None:
        model(x).backward()

    for _ in range(2):
        step()
        model.zero_grad()
    trained = sum(each.nbytes for each in net.parameters() if each.requires_grad)
    held = sum(each.nbytes for each in net.parameters()) + trained + x.nbytes
    return plans[0].peak_bytes, held + peak_of(step, x.device)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("kind", INSIDE)
@pytest.mark.parametrize("is_view", [False, True])
def test_gradients_that_are_exchanged_lie_in_buckets_too(
    kind: str, is_view: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    said, found = planned_and_measured(kind, is_view)
    assert said == pytest.approx(found, abs=100)
    assert "several graphs" not in capsys.readouterr().err, "it is one"


def _rank(rank: int, folder: str, kind: str) -> None:
    store = distributed.FileStore(f"{folder}/store", 2)
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=2)
    Path(folder, str(rank)).write_text(str(planned_and_measured(kind, is_view=False)))
    distributed.destroy_process_group()


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", INSIDE)
def test_so_they_do_in_two_processes(kind: str, tmp_path: Path) -> None:
    torch.multiprocessing.spawn(_rank, (str(tmp_path), kind), nprocs=2)
    for rank in "01":
        said, found = map(int, Path(tmp_path, rank).read_text().strip("()").split(", "))
        assert said == pytest.approx(found, abs=100)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("kind", INSIDE)
def test_a_graph_that_pytorch_cuts_for_the_exchange_is_refused(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distributed, "_DEFAULT_FIRST_BUCKET_BYTES", 10_000)
    with egrl_training.memory_limit(fraction=1.0, quiet=True) as plans:
        model = INSIDE[kind](Net(), bucket_cap_mb=0.01)
    x = torch.randn(ROWS, WIDTH)
    with pytest.raises(
        MemoryLimitError, match=r"found the parts .* set torch\._dynamo\.config\.optimize_ddp = False"
    ):
        model(x)
    torch._dynamo.reset()
    with torch._dynamo.config.patch(optimize_ddp=False):
        model(x).backward()
    assert len(plans) == 1


@pytest.mark.usefixtures("alone")
def test_what_a_hook_of_the_exchange_takes_is_not_known() -> None:
    with egrl_training.memory_limit(fraction=1.0, quiet=True):
        model = INSIDE["what is compiled is exchanged"](Net())
    model.register_comm_hook(None, fp16_compress_hook)
    with pytest.raises(MemoryLimitError, match="found one with a communication hook"):
        model(torch.randn(ROWS, WIDTH))


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("whole", [True, False])
def test_parameters_that_are_gathered_when_they_are_needed_have_no_plan(whole: bool) -> None:
    net, x = Net(), torch.randn(ROWS, WIDTH)
    if not whole:
        fully_shard(net.layers[0])
    fully_shard(net)
    with egrl_training.memory_limit(fraction=1.0, quiet=True):
        step = torch.compile(lambda x: net(x), backend="aot_eager")
    with pytest.raises(MemoryLimitError, match="<lambda>: expected a model that this process holds whole"):
        step(x)
    with pytest.raises(
        InputError, match="Net: expected a model that this process holds whole, found one in FSDP"
    ):
        egrl_training.fits(net, [x], "1 GiB")


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("is_view", [False, True])
def test_what_fits_has_the_buckets_too(is_view: bool) -> None:
    model, x = DistributedDataParallel(Net(), gradient_as_bucket_view=is_view), torch.randn(ROWS, WIDTH)
    plain, answer = (egrl_training.fits(each, [x], "1 GiB", optimizer="none") for each in (Net(), model))
    trained = sum(each.nbytes for each in model.parameters() if each.requires_grad)
    assert answer.rows[ALL].peak_bytes - plain.rows[ALL].peak_bytes == trained
    assert answer.stepping_bytes - plain.stepping_bytes == (0 if is_view else trained)
