"""A run folder read again: what was in it comes out, and what is damaged, missing or foreign is refused in a line."""

from __future__ import annotations

import io
import json
import re
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import egrl
from egrl.cli.main import main
from egrl.runs.past_run import PastRun
from workloads.errors import InputError


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Finished runs of two generations: on alexnet, and on resnet18."""
    folder = tmp_path_factory.mktemp("runs")
    for workload in ("alexnet", "resnet18"):
        argv = [
            "run",
            "--workload",
            workload,
            "--method",
            "annealing",
            "--gens",
            "2",
            "--seed",
            "3",
            "--quiet",
        ]
        assert main([*argv, "--bound-seconds", "0", "--out", str(folder / workload)]) == 0
    return {path.name: path for path in folder.iterdir()}


@pytest.fixture
def run(made: dict[str, Path], tmp_path: Path) -> Path:
    """A copy of the run on alexnet, to be damaged."""
    return Path(shutil.copytree(made["alexnet"], tmp_path / "run"))


def refused(action: Callable[[], object]) -> str:
    """The message of the InputError that an action ends with, which is one line."""
    with pytest.raises(InputError) as caught:
        action()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def change(path: Path, **fields: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def test_a_run_gives_back_its_options_its_problem_and_everything_it_evaluated(run):
    past = PastRun.read(run)
    assert (past.options.workload, past.options.method, past.options.seed) == ("alexnet", "annealing", 3)
    assert past.problem.fingerprint() == past.summary["fingerprint"]
    found = past.evaluations()
    assert found.ticket.tolist() == list(range(42))
    assert found.mapping.shape == (42, *past.problem.space.shape)
    again = past.problem.evaluate(found.mapping, np.zeros(42, np.uint64))
    np.testing.assert_array_equal(again.speedup, found.speedup)
    np.testing.assert_array_equal(again.cost, found.cost)
    best = found.mapping[found.speedup.argmax()]
    np.testing.assert_array_equal(past.best_mapping(), best)
    assert past.summary["best"]["speedup"] == found.speedup.max()


def test_a_run_that_was_moved_reads_its_own_inputs(run):
    text = (run / "config.toml").read_text()
    assert 'workload = "alexnet"' in text
    (run / "config.toml").write_text(text.replace('workload = "alexnet"', 'workload = "gone.json"'))
    assert PastRun.read(run).problem.about.workload == "alexnet"


@pytest.mark.parametrize("name", ["summary.json", "config.toml"])
@pytest.mark.parametrize("content", [None, "", "{", "kind = 3", '{"kind": "mapping", "version": 1}'])
def test_a_folder_without_summary_or_config_and_damaged_ones_are_refused(name, content, run):
    if content is None:
        (run / name).unlink()
    else:
        (run / name).write_text(content)
    assert str(run / name) in refused(lambda: PastRun.read(run))


def test_what_is_no_run_folder_is_refused(tmp_path):
    assert "summary.json" in refused(lambda: PastRun.read(tmp_path))
    assert "no such folder" in refused(lambda: PastRun.read(tmp_path / "none"))


@pytest.mark.parametrize("file", ["workload.json", "chip.toml"])
def test_another_problem_than_the_run_s_is_refused(file, run, made):
    other = (made["resnet18"] / file).read_text()
    if file == "chip.toml":
        other = other.replace("launch_s = ", "launch_s = 1", 1)
    (run / file).write_text(other)
    message = refused(lambda: PastRun.read(run).problem)
    assert "made by another simulator, chip or workload" in message
    (run / file).unlink()
    assert str(run / file) in refused(lambda: PastRun.read(run).problem)


def test_an_unknown_problem_or_setting_is_refused(run):
    text = (run / "config.toml").read_text()
    (run / "config.toml").write_text(text.replace('problem = "nnpi"', 'problem = "chess"'))
    assert "chess" in refused(lambda: PastRun.read(run).problem)
    (run / "config.toml").write_text(text.replace("[problem]", "[problem]\nbishops = 2"))
    assert "bishops" in refused(lambda: PastRun.read(run).problem)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"best": {"reward": 1.0, "speedup": 1.0, "cost": "1", "source": "start"}},
            "best.cost: expected a valid",
        ),
        ({"best": {"reward": 1.0, "speedup": 1.0, "cost": 1.0}}, "best.source: expected it, found none"),
        ({"baseline": {"cost": 0.0}}, "baseline.cost: expected more than 0"),
        ({"seed": "x"}, "seed: expected a valid integer, found 'x'"),
        ({"workload": "a\x1b[2J"}, "workload: expected printable UTF-8"),
    ],
)
def test_a_summary_that_was_changed_is_refused_by_its_field(run, changed, said):
    change(run / "summary.json", **changed)
    assert said in refused(lambda: PastRun.read(run))


def test_a_run_without_a_valid_mapping_has_no_best(run):
    change(run / "summary.json", best=None)
    assert "expected a run with a valid mapping, found none yet" in refused(PastRun.read(run).best_mapping)


def test_a_best_mapping_that_is_missing_damaged_or_of_another_workload_is_refused(run, made):
    best = run / "best_mapping.json"
    shutil.copy(made["resnet18"] / "best_mapping.json", best)
    assert "expected 'alexnet', found 'resnet18'" in refused(PastRun.read(run).best_mapping)
    best.write_text("{")
    assert str(best) in refused(PastRun.read(run).best_mapping)
    best.unlink()
    assert "valid mapping" in refused(PastRun.read(run).best_mapping)


def test_chunks_that_are_damaged_or_of_another_shape_are_refused(run, made):
    (chunk,) = (run / "mappings").iterdir()
    (other,) = (made["resnet18"] / "mappings").iterdir()
    past = PastRun.read(run)
    shutil.copy(other, chunk)
    message = refused(past.evaluations)
    assert message.startswith(f"{run / 'mappings'}: expected mappings of shape [")
    chunk.write_bytes(chunk.read_bytes()[:100])
    assert f"{chunk}: damaged chunk of mappings" in refused(past.evaluations)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("mapping", (5_000_000, None)),
        ("mapping", (21, 10**6, 2)),
        ("reward", (2**27,)),
        ("parts", (21, 2**25)),
    ],
)
def test_a_small_chunk_that_holds_gigabytes_is_refused_before_it_is_unpacked(name, size, run, monkeypatch):
    """Only the header says so: unpacked, the array would end too early."""
    (chunk,) = (run / "mappings").iterdir()
    past = PastRun.read(run)
    shape = past.problem.space.shape
    size = (size[0], *shape) if size[-1] is None else size
    header = io.BytesIO()
    kind = "<i2" if name == "mapping" else "<f4" if name == "parts" else "<f8"
    np.lib.format.write_array_header_1_0(header, {"descr": kind, "fortran_order": False, "shape": size})
    with zipfile.ZipFile(chunk) as before:
        arrays = {file: before.read(file) for file in before.namelist()}
    with zipfile.ZipFile(chunk, "w") as after:
        for file, content in (arrays | {f"{name}.npy": header.getvalue()}).items():
            after.writestr(file, content)
    monkeypatch.setattr(np, "load", lambda *a, **k: pytest.fail("it was unpacked"))
    message = refused(past.evaluations)
    assert "expected mappings of shape" in message or f"{name}: expected at most 100000 rows" in message


def test_a_run_without_chunks_has_no_evaluations(run):
    shutil.rmtree(run / "mappings")
    found = PastRun.read(run).evaluations()
    assert [len(column) for column in (found.ticket, found.mapping, found.speedup, found.cost)] == [0] * 4


def test_policies_are_listed_by_generation_and_other_files_are_left_alone(run):
    message = refused(PastRun.read(run).policies)
    assert message.startswith(f"{run}: expected a run with policies")
    (run / "policies").mkdir()
    names = ["generation-00000010", "generation-00000002", "generation-x", "mine"]
    for name in names:
        (run / "policies" / f"{name}.safetensors").touch()
    found = PastRun.read(run).policies()
    assert [(generation, path.stem) for generation, path in found.items()] == [(2, names[1]), (10, names[0])]


def test_the_page_on_run_folders_has_every_array_of_a_chunk(tmp_path):
    page = (Path(__file__).parents[3] / "docs" / "reference" / "run-folder.md").read_text(encoding="utf-8")
    table = page.split("## The arrays of mappings")[1].split("\n## ")[0]
    cells = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    documented = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    settings = ["problem.profile_noise=0.01"]
    egrl.search(
        "alexnet", method="random", evals=21, out=tmp_path / "run", bound_seconds=0.0, settings=settings
    )
    (file,) = (tmp_path / "run" / "mappings").glob("*.npz")
    with np.load(file) as chunk:
        assert set(chunk.files) | {"parts"} == documented
        found = PastRun.read(tmp_path / "run").evaluations()
        np.testing.assert_array_equal(found.mapping, chunk["mapping"])
        np.testing.assert_array_equal(found.cost, chunk["cost"])
