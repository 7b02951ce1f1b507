"""The largest batch that trains within a memory limit, and how fast: egrl's plans beside PyTorch's `dp` and no plan.

    python -m benchmarks.training_batch -o FOLDER --network gpt2 --limit "24 GiB" --batches 16,20,24,28,32,40,48
        [--backend aot_eager] [--steps 10] [--device cuda]
    python -m benchmarks.training_batch -o FOLDER --table

A step is forward, backward and AdamW in bfloat16; the limit holds all of it: parameters, gradients and the optimizer's
state as well. `none` is PyTorch without a budget. `dp` has the largest of its budgets that fits at each
batch. `egrl` is `memory_limit(LIMIT, reserved=the optimizer's state)`. The batches are searched by bisection, from
what fits without a plan upwards. On a GPU the process gets no more than the limit. What FOLDER has is not run again.
"""

from __future__ import annotations

import argparse
import gc
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from benchmarks.training_models import LARGE, Training, Where, training
from benchmarks.training_steps import BUDGETS
from torch._functorch import config as functorch_config

import egrl_training
from benchmarks.lines import Lines
from egrl_training.pytorch.asked import size_of
from egrl_training.pytorch.peak import peak_of
from egrl_training.pytorch.timing import now

KEYS = ("network", "backend", "limit_bytes", "who", "batch")
SCRATCH = 160 << 20
"""What libraries of a GPU keep for themselves (cuBLAS, 32 MiB per handle and stream on Hopper; the compiler's own)."""


class Setup:
    """One network, batch size after batch size, within the limit."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options, self.limit = options, size_of(options.limit)
        self._where = Where(False, options.device, True)
        self.lines = Lines(options.output / "batches.jsonl", KEYS)
        self._device = torch.device(options.device)
        if self._device.type == "cuda":
            whole = torch.cuda.get_device_properties(self._device).total_memory
            torch.cuda.set_per_process_memory_fraction(self.limit / whole)

    def fits(self, who: str, batch: int) -> bool:
        """True if a step of this batch fits; measures it unless it is known."""
        case = (self._options.network, self._options.backend, self.limit, who, batch)
        if case not in self.lines:
            for how in reversed(BUDGETS) if who == "dp" else (who,):
                found = self._run(batch, how)
                if "seconds" in found:
                    break
            self.lines.add(case, found)
            print(self.lines.all[-1], flush=True)
        (line,) = [line for line in self.lines.all if tuple(line[key] for key in KEYS) == case]
        return "seconds" in line

    def _run(self, batch: int, how: float | str) -> dict[str, Any]:
        """Seconds and peak of a step, or why it does not fit."""
        torch._dynamo.reset()
        try:
            return self._measured(batch, how)
        except (egrl_training.MemoryLimitError, RuntimeError) as error:
            if not isinstance(error, egrl_training.MemoryLimitError) and "out of memory" not in str(error):
                raise
            return {"how": how, "error": f"{type(error).__name__}: {str(error)[:200]}"}
        finally:
            gc.collect()
            if self._device.type == "cuda":
                torch.cuda.empty_cache()

    def _measured(self, batch: int, how: float | str) -> dict[str, Any]:
        chosen = training(self._options.network, device=self._options.device, large=True, batch=batch)
        step, held = self._step(chosen, how)
        step()  # compiles
        with self._where.alone():
            peak = peak_of(step, self._device) + held
            if peak > self.limit:
                return {"how": how, "peak_bytes": peak, "error": "above the limit"}
            seconds = []
            for _ in range(self._options.steps):
                begun = now(self._device)
                step()
                seconds.append(now(self._device) - begun)
        found = {"how": how, "seconds": statistics.median(seconds), "peak_bytes": peak}
        if self._device.type == "cuda":
            found["reserved_bytes"] = torch.cuda.max_memory_reserved(self._device)
        return found

    def _step(self, chosen: Training, how: float | str) -> tuple[Callable[[], None], int]:
        """A training step, and the bytes of what stays between steps."""
        gpu = self._device.type == "cuda"
        optimizer = torch.optim.AdamW(chosen.model.parameters(), lr=1e-5, fused=gpu, foreach=False)
        state = 2 * sum(parameter.nbytes for parameter in chosen.model.parameters())
        backend = self._options.backend
        if how == "egrl":
            with egrl_training.memory_limit(self.limit, reserved=state + (SCRATCH if gpu else 0), seconds=8):
                function = torch.compile(chosen.model, backend=backend)
        else:
            function = torch.compile(chosen.model, backend=backend, dynamic=False)
        settings = functorch_config.patch(
            activation_memory_budget=how if isinstance(how, float) else 1.0, enable_autograd_cache=False
        )

        def step() -> None:
            with settings:
                function(*chosen.inputs).backward()
            optimizer.step()
            optimizer.zero_grad()

        held = sum(t.nbytes for t in (*chosen.model.parameters(), *chosen.model.buffers(), *chosen.inputs))
        return step, held + state


def largest(fits: Callable[[int], bool], batches: Sequence[int]) -> int:
    """The largest of ascending batches that fits, by bisection; 0 if none does."""
    low, high = -1, len(batches)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(batches[middle]) else (low, middle)
    return batches[low] if low >= 0 else 0


def table(folder: Path) -> str:
    """Markdown: for each network, backend and limit the largest batch of each, and samples per second there."""
    lines = Lines(folder / "batches.jsonl", KEYS).all
    rows = ["| network | backend | limit | plan | largest batch | peak / limit | samples/s | at batch |"]
    rows.append("|---|---|---:|---|---:|---:|---:|---:|")
    for case in dict.fromkeys(tuple(line[key] for key in KEYS[:4]) for line in lines):
        fitting = [line for line in lines if tuple(line[k] for k in KEYS[:4]) == case and "seconds" in line]
        if fitting:
            most = max(fitting, key=lambda line: line["batch"])
            best = max(fitting, key=lambda line: line["batch"] / line["seconds"])
            name, backend, limit, who = case
            rows.append(
                f"| {name} | {backend} | {limit / 2**30:g} GiB | {who} | {most['batch']} |"
                f" {most['peak_bytes'] / limit:.3f} | {most['batch'] / most['seconds']:.1f} |"
                f" {best['batch'] / best['seconds']:.1f} at {best['batch']} |"
            )
    return "\n".join(rows)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what FOLDER lacks, or print the table of what it has."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--network", choices=tuple(LARGE), default="gpt2")
    parser.add_argument("--limit", default="24 GiB")
    parser.add_argument("--batches", default="8,12,16,20,24,28,32,36,40,48,56,64")
    parser.add_argument("--who", default="none,dp,egrl")
    parser.add_argument("--backend", default="aot_eager")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args(argv)
    if options.table:
        print(table(options.output))
        return 0
    options.output.mkdir(parents=True, exist_ok=True)
    setup = Setup(options)
    batches, least = sorted(int(text) for text in options.batches.split(",")), 0
    for who in options.who.split(","):
        found = largest(partial(setup.fits, who), [batch for batch in batches if batch >= least])
        least = found if who == "none" else least
        print(f"{who}: {found}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
