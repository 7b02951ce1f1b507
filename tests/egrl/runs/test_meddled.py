"""A run folder that somebody meddles with, while the run goes on or between runs: noticed and named."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from commands import refuse

import egrl
from egrl.cli.main import main
from egrl.runs.past_run import PastRun
from workloads.errors import InputError, RunFailure


def search(out: Path, seed: int = 0, meddle: Callable[[], object] = lambda: None) -> None:
    """Six generations; `meddle` is called after the third."""

    def told(row: dict[str, object]) -> None:
        if row["generation"] == 3:
            meddle()

    egrl.search(
        "alexnet", method="annealing", gens=6, seed=seed, bound_seconds=0.0, checkpoint_seconds=0.0,
        out=out, on_generation=told,
    )  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("meddled") / "whole"
    search(out)
    return out


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("meddled") / "other"
    search(out, seed=1)
    return out


def test_a_folder_that_is_removed_in_the_last_generation_ends_the_run_in_one_line(tmp_path, capsys):
    out = tmp_path / "run"

    def remove(row: dict[str, object]) -> None:
        if row["generation"] == 2:
            shutil.rmtree(out)

    with pytest.raises(RunFailure, match=r"cannot write .*No such file"):
        egrl.search("alexnet", method="random", gens=2, out=out, on_generation=remove, bound_seconds=0.0)
    assert not out.exists()


def test_a_folder_that_is_removed_ends_the_run_in_one_line(tmp_path):
    with pytest.raises(RunFailure, match=r"cannot write .*No such file"):
        search(tmp_path / "run", meddle=lambda: shutil.rmtree(tmp_path / "run"))


@pytest.mark.slow
@pytest.mark.parametrize("how", ["under the same name", "beside", "spanning"])
def test_chunks_of_another_run_are_refused_by_name_and_go_on_without(whole, other, tmp_path, how, capsys):
    run = Path(shutil.copytree(whole, tmp_path / "run"))
    names = {
        "under the same name": max((other / "mappings").iterdir()).name,
        "beside": "000000000-000000005-p0.npz",
        "spanning": "000000100-000000999-p0.npz",
    }
    chunk = run / "mappings" / names[how]
    before = chunk.read_bytes() if chunk.exists() else None
    shutil.copy(max((other / "mappings").iterdir()), chunk)
    strange = chunk.read_bytes()
    refuse(capsys, ["run", "--resume", str(run), "--gens", "7"], str(chunk))
    assert chunk.read_bytes() == strange
    if before is None:
        chunk.unlink()
    else:
        chunk.write_bytes(before)
    assert main(["run", "--resume", str(run), "--gens", "7", "--quiet"]) == 0


def test_evaluations_of_two_runs_are_not_read_as_one(whole, other, tmp_path):
    run = Path(shutil.copytree(whole, tmp_path / "run"))
    shutil.copy(min((other / "mappings").iterdir()), run / "mappings" / "000000000-000000005-p0.npz")
    with pytest.raises(InputError, match=r"mappings: expected the chunks .* of one run, found two"):
        PastRun.read(run).evaluations()


@pytest.mark.slow
def test_a_page_is_made_of_what_is_left(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = shutil.copytree(whole, tmp_path / "run")
    shutil.rmtree(run / "mappings")
    assert main(["report", str(run)]) == 0
    name = os.fsdecode(b"not-text-\xff")
    strange = shutil.copytree(whole, tmp_path / name)
    assert main(["report", str(strange), "-o", str(tmp_path / "page.html")]) == 0
    assert "not-text-\\udcff" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_what_is_no_file_is_not_read(whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = shutil.copytree(whole, tmp_path / "run")
    (run / "metrics.csv").unlink()
    os.mkfifo(run / "metrics.csv")
    assert main(["watch", "--once", str(run)]) == 0
    assert capsys.readouterr().out.rstrip().endswith("begins")


@pytest.mark.parametrize("command", ["report", "plot curves"])
def test_half_a_character_is_refused(
    command: str, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = shutil.copytree(whole, tmp_path / "run")
    document = json.loads((run / "summary.json").read_text())
    document["about"]["rival"] = "\ud800"
    (run / "summary.json").write_text(json.dumps(document))
    refuse(
        capsys, [*command.split(), str(run)], "summary.json: expected text, found half of a surrogate pair"
    )


def test_a_pipe_that_the_user_names_is_written_to(whole: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(pipe.read_text)
        assert main(["export", str(whole), "--format", "json", "-o", str(pipe)]) == 0
        assert json.loads(read.result(60))["kind"] == "mapping"
    assert pipe.is_fifo()
    assert main(["export", str(whole), "--format", "csv", "-o", os.devnull]) == 0
    assert Path(os.devnull).is_char_device()


def test_a_best_mapping_that_is_not_the_summarys_is_refused(whole, tmp_path, capsys):
    """As in a folder that was copied while it ran, or where somebody edited the file."""
    run = Path(shutil.copytree(whole, tmp_path / "run"))
    path = run / "best_mapping.json"
    path.write_text(path.read_text().replace('"scratchpad"', '"dram"').replace('"sram"', '"dram"'))
    for words in (["evaluate"], ["report"], ["allocate"], ["plot", "breakdown"]):
        refuse(capsys, [*words, str(run)], "expected the mapping of summary.json, which costs")


@pytest.mark.parametrize(
    ("table", "key", "said"),
    [
        ("best", "speedup", "best.speedup: expected that of evaluation"),
        ("best", "cost", "best.cost: expected that of evaluation"),
        ("best", "reward", "best.reward: expected that of evaluation"),
        ("baseline", "cost", "best.speedup: expected baseline.cost / best.cost"),
    ],
)
def test_a_number_that_somebody_changed_is_believed_by_no_command(whole, tmp_path, table, key, said, capsys):
    run = Path(shutil.copytree(whole, tmp_path / "run"))
    document = json.loads((run / "summary.json").read_text())
    document[table][key] = 0.5 + 1.001 * document[table][key]
    (run / "summary.json").write_text(json.dumps(document))
    for words in ("report", "plot curves", "transfer", "evaluate", "export --format json -o x.json"):
        workload = ["--workload", "alexnet"] if words == "transfer" else []
        refuse(capsys, [*words.split(), str(run), *workload], said)
    shutil.rmtree(run / "mappings")  # then its numbers are held to one another alone
    if key != "reward":
        refuse(capsys, ["report", str(run)], "best.speedup: expected baseline.cost / best.cost")


def test_a_gap_follows_from_the_bound(whole, tmp_path, capsys):
    run = Path(shutil.copytree(whole, tmp_path / "run"))
    document = json.loads((run / "summary.json").read_text())
    document |= {"bound": document["best"]["cost"] / 1.25, "gap": 0.25}
    (run / "summary.json").write_text(json.dumps(document))
    assert PastRun.read(run).summary["gap"] == 0.25
    (run / "summary.json").write_text(json.dumps(document | {"gap": 0.01}))
    refuse(capsys, ["report", str(run)], "gap: expected best.cost / bound - 1, 0.25, found 0.01")


@pytest.mark.parametrize("lines", [3, 5])
def test_metrics_that_lack_generations_are_refused(whole, tmp_path, lines, capsys):
    run = Path(shutil.copytree(whole, tmp_path / "run"))
    text = (run / "metrics.csv").read_text().splitlines()
    del text[2:lines]
    (run / "metrics.csv").write_text("\n".join(text))
    shutil.rmtree(run / "checkpoint")
    found = 6 - lines + 2
    refuse(capsys, ["plot", "curves", str(run)], f"expected the 6 generations of the run, found {found}")


def change(run: Path, **numbers: object) -> None:
    """Numbers of a run's summary, as somebody edits them."""
    path = run / "summary.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | numbers))


COMMANDS = ("evaluate", "report", "plot curves", "export --format json -o x.json")


def refused_by_all(capsys: pytest.CaptureFixture[str], run: Path, said: str) -> None:
    for words in COMMANDS:
        refuse(capsys, [*words.split(), str(run)], said)


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ({"seed": 7}, "seed: expected that of the last checkpoint, 0, found 7"),
        ({"method": "ea"}, "method: expected that of the last checkpoint, 'annealing', found 'ea'"),
        ({"start": "random"}, "start: expected that of the last checkpoint, 'compiler', found 'random'"),
        ({"evaluations": 2000}, "evaluations: expected the 126 of the last checkpoint at most, found 2000"),
        ({"evaluator": {}}, "evaluator: expected measurements.jsonl beside it, found none"),
    ],
)
def test_what_the_checkpoint_contradicts_is_believed_by_no_command(whole, tmp_path, numbers, said, capsys):
    run = Path(shutil.copytree(whole, tmp_path / "run"))
    change(run, **numbers)
    refused_by_all(capsys, run, said)


def test_a_gap_that_does_not_follow_from_a_bound_or_is_beyond_it_is_refused(whole, tmp_path, capsys):
    run = Path(shutil.copytree(whole, tmp_path / "run"))
    cost = json.loads((run / "summary.json").read_text())["best"]["cost"]
    change(run, bound=2 * cost, gap=-0.5)
    refused_by_all(capsys, run, "bound: expected one that the best does not pass")
    change(run, bound=None, gap=0.0)
    refused_by_all(capsys, run, "gap: expected best.cost / bound - 1, None, found 0.0")
    change(run, bound=cost, gap=None)
    refused_by_all(capsys, run, "gap: expected best.cost / bound - 1, 0.0, found None")
    change(run, bound=None, gap=None, reward_bound=2.0, reward_gap=0.5)
    refused_by_all(capsys, run, "reward_gap: expected reward_bound - best.reward")


@pytest.mark.parametrize("file", ["metrics.csv", "mappings"])
def test_a_file_that_is_not_what_the_checkpoint_counts_is_read_by_no_command(whole, tmp_path, file, capsys):
    run = Path(shutil.copytree(whole, tmp_path / "run"))
    if file == "mappings":
        file = f"mappings/{min((run / file).iterdir()).name}"
    content = (run / file).read_bytes()
    (run / file).write_bytes(
        content.replace(b",1.0,", b",1.5,", 1) if file == "metrics.csv" else content[:-1]
    )
    refused_by_all(capsys, run, f"{file}: expected what the last checkpoint counts, found another")


def test_without_checkpoints_a_row_is_held_to_the_summary(whole, tmp_path, capsys):
    run = Path(shutil.copytree(whole, tmp_path / "run"))
    shutil.rmtree(run / "checkpoint")
    assert main(["report", str(run)]) == 0
    names, *rows = (line.split(",") for line in (run / "metrics.csv").read_text().splitlines())
    rows[-1][names.index("best_speedup")] = "1.5"
    (run / "metrics.csv").write_text("\n".join(map(",".join, [names, *rows])))
    refuse(capsys, ["plot", "curves", str(run)], "best_speedup: expected that of summary.json")


def test_a_best_of_a_generation_that_was_cut_off_stands_in_the_row_of_that(tmp_path):
    run = [
        "run",
        "--workload",
        "alexnet",
        "--method",
        "random",
        "--start",
        "cold",
        "--evals",
        "30",
        "--seed",
        "3",
    ]
    assert main([*run, "--quiet", "--bound-seconds", "0", "--out", str(tmp_path / "run")]) == 0
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["best"]["evaluation"] > 21
    assert main(["report", str(tmp_path / "run")]) == 0
