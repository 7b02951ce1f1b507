"""Benchmarks of training steps: their tables stand on the page, and what they say of rivals is true."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from benchmarks import training as training_benchmark
from benchmarks import training_fits, training_host, training_samples, training_steps
from egrl_training.pytorch import backend, joint

DOCS = Path(__file__).resolve().parents[1] / "docs"


def test_the_page_of_training_has_the_tables_of_its_data():
    docs = DOCS / "results"
    page = (docs / "training.md").read_text(encoding="utf-8")
    plans_and_steps = training_benchmark.table(docs / "data" / "training").split("\n\n")
    _, *steps_on_a_gpu = training_benchmark.table(docs / "data" / "training-gpu").split("\n\n")
    host = training_host.table(docs / "data" / "training-host").split("\n\n")
    folders = (docs / "data" / name for name in ("training", "training-strangers"))
    own, strangers = (training_fits.Lines(each / "fits.jsonl", training_fits.KEYS) for each in folders)
    for part in (
        *plans_and_steps,
        *steps_on_a_gpu,
        *host,
        training_fits.table(own),
        training_fits.summary(strangers),
    ):  # rows of one table stand together
        assert part.strip() in page


@pytest.mark.exhaustive
def test_without_random_numbers_kept_the_gradients_of_the_rival_are_wrong():
    chosen = training_steps.Where(small=True, device="cpu").training("gpt2")
    wanted = training_steps.gradients(chosen, chosen.model)
    errors = {}
    for kept in (False, True):
        torch._dynamo.reset()
        with training_steps._budget(0.2, kept):
            step = torch.compile(chosen.model, backend="aot_eager", dynamic=False)
            found = training_steps.gradients(chosen, step)
        errors[kept] = training_steps.gradient_error(wanted, found)
    torch._dynamo.reset()
    assert errors[True] < 1e-5
    assert errors[False] > 0.1


def test_means_are_of_rows_whose_rival_draws_nothing_twice(tmp_path):
    def row(network: str, kind: str, ratio: float) -> dict[str, object]:
        return {
            "network": network,
            "backend": "aot_eager",
            "kind": kind,
            "amount": 0.5,
            "who": "ours",
            "ratios": [ratio],
        }

    rows = [row("vit", "budget", 0.8), row("gpt2", "budget", 0.1), row("unet", "limit", 0.1)]
    rows += [row("gpt2", training_steps.RANDOM_KEPT, 0.8)]
    (tmp_path / "steps.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    (line,) = training_steps.mean_lines(tmp_path)
    assert line.startswith("aot_eager, where `dp` draws nothing twice, at budgets: 0.800 of its time")
    assert "over 2 networks" in line


def _dropped() -> training_samples.Made:
    torch.manual_seed(2)
    x = torch.randn(16, dtype=torch.float64)
    return training_samples.Made(lambda one: torch.nn.functional.dropout((x * one).sin(), 0.5), [x])


@pytest.mark.filterwarnings("ignore::UserWarning:torch.*")
def test_a_sample_is_wrong_if_random_numbers_are_drawn_again(monkeypatch):
    sample = training_samples.Sample("dropout", _dropped)
    assert training_samples.outcome([sample], "aot_eager") == ("right", "")
    monkeypatch.setattr(joint, "returns_the_same", lambda node: True)
    monkeypatch.setattr(backend.Meaning, "check", lambda *graphs: None)
    word, detail = training_samples.outcome([sample], "aot_eager")
    assert word == "WRONG"
    assert detail.endswith("plain: 0.0")
    torch._dynamo.reset()


def test_what_is_said_of_strangers_is_summed_up_by_kind(tmp_path):
    lines = training_fits.Lines(tmp_path / "fits.jsonl", training_fits.KEYS)
    for kind, said in (("float32", 1000), ("bfloat16", 970)):
        for plan in (training_fits.ALL, training_fits.LEAST):
            bytes_ = {"said_bytes": said, "measured_bytes": 1000}
            steps = {"said_step_bytes": 2000, "measured_step_bytes": 2000}
            lines.add((f"timm a, {kind}", plan), {**bytes_, **steps, "seconds": 9.0})
    first, second = training_fits.summary(lines).splitlines()
    assert first.startswith("float32: 1 networks, 1.000 within 0.1%")
    assert second.startswith(
        "bfloat16: 1 networks, 0.333 within 0.1%, 0.333 within 1.0%, 0.333 within 2.0%; timm a ("
    )
    assert "-3.00%" in second
