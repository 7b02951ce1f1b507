"""egrl allocate: addresses of a run's tensors, as a file, a table and an exit code."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from commands import refuse

from egrl.cli.handover import failure
from egrl.cli.main import main
from egrl.runs import export
from egrl.runs.past_run import PastRun
from hwsim.allocation.judge import judge
from toys import TOYS
from workloads.errors import InputError


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of a generation; copy it before changing it."""
    out = tmp_path_factory.mktemp("runs") / "r"
    argv = [
        "run",
        "--workload",
        "alexnet",
        "--method",
        "annealing",
        "--gens",
        "1",
        "--quiet",
        "--out",
        str(out),
    ]
    assert main(argv) == 0
    return out


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "r"))


@pytest.fixture
def cramped(tmp_path: Path) -> Path:
    """A chip whose SRAM holds less than the compiler's map of AlexNet on the built-in one."""
    text = (Path(__file__).parents[3] / "hwsim" / "nnpi" / "chips" / "nnpi.toml").read_text(encoding="utf-8")
    small = text.replace("capacity_bytes = 4_194_304 ", "capacity_bytes = 1_000_000 ")
    assert small != text
    chip = tmp_path / "cramped.toml"
    chip.write_text(small.replace('name = "nnpi"', 'name = "cramped"'), encoding="utf-8")
    return chip


def tensors_by_memory(report: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    return {
        memory["memory"]: [t for t in report["tensors"] if t["memory"] == memory["memory"]]
        for memory in report["memories"]
    }


def test_every_tensor_of_the_best_mapping_gets_an_offset_that_the_judge_accepts(run, capsys):
    assert main(["allocate", str(run)]) == 0
    report = json.loads((run / "allocation.json").read_text())
    assert {key: report[key] for key in ("kind", "version", "workload", "chip", "align_bytes", "packed")} == {
        "kind": "allocation",
        "version": 1,
        "workload": "alexnet",
        "chip": "nnpi",
        "align_bytes": 64,
        "packed": True,
    }
    past = PastRun.read(run)
    mapping = past.best_mapping()
    assert len(report["tensors"]) == (mapping >= 0).sum()
    for tensor in report["tensors"]:
        node, head = (
            past.problem.space.nodes.index(tensor["op"]),
            past.problem.space.heads.index(tensor["head"]),
        )
        assert tensor["memory"] == past.problem.space.labels[head][mapping[node, head]]
        assert tensor["size_bytes"] == past.problem.space.size_bytes[node, head]
        assert past.problem.space.nodes[tensor["last_step"]] == tensor["last_op"]
    for memory, tensors in zip(report["memories"], tensors_by_memory(report).values(), strict=True):
        lives = [(t["op"], t["size_bytes"], t["first_step"], t["last_step"] + 1) for t in tensors]
        assert judge(lives, [t["offset_bytes"] for t in tensors], memory["capacity_bytes"], 64) == []
        assert memory["tensors"] == len(tensors)
        assert memory["fullest_bytes"] <= memory["height_bytes"] <= memory["capacity_bytes"]
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split() == ["memory", "tensors", "fullest", "step", "height", "capacity", "fits"]
    assert [line.split()[0] for line in shown[1:4]] == ["sram", "llc", "dram"]
    assert all(line.endswith("yes") for line in shown[1:4])
    assert shown[-1] == f"written: {run / 'allocation.json'}"


def test_csv_has_the_rows_of_the_document(run, tmp_path, capsys):
    out = tmp_path / "a.csv"
    assert main(["allocate", str(run), "--format", "csv", "-o", str(out), "--json", "--align", "1"]) == 0
    report = json.loads(capsys.readouterr().out)
    with out.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == list(export.COLUMNS)
    assert rows == [{key: str(value) for key, value in tensor.items()} for tensor in report["tensors"]]
    assert not (run / "allocation.json").exists()
    assert main(["allocate", str(run), "--format", "csv"]) == 0
    assert (run / "allocation.csv").is_file()


def test_a_mapping_file_is_packed_as_the_run_is(run, tmp_path, capsys):
    mapping = str(run / "best_mapping.json")
    out = tmp_path / "a.json"
    assert main(["allocate", "--workload", "alexnet", "--mapping", mapping, "-o", str(out)]) == 0
    assert main(["allocate", str(run)]) == 0
    assert json.loads(out.read_text()) == json.loads((run / "allocation.json").read_text())


def test_what_cannot_be_packed_is_written_named_and_an_exit_code_of_1(run, cramped, tmp_path, capsys):
    out = tmp_path / "a.json"
    argv = ["allocate", "--workload", "alexnet", "--chip", str(cramped), "-o", str(out), "--seconds", "600"]
    argv += ["--mapping", str(run / "best_mapping.json")]
    assert main(argv) == 1
    captured = capsys.readouterr()
    report = json.loads(out.read_text())
    assert report["packed"] is False
    (sram,) = (memory for memory in report["memories"] if not memory["packed"])
    assert sram["memory"] == "sram"
    assert sram["verdict"] == "impossible"
    assert sram["over_bytes"] == sram["height_bytes"] - 1_000_000
    out_there = [
        f"{t['head']} of {t['op']}"
        for t in report["tensors"]
        if t["memory"] == "sram" and t["offset_bytes"] + t["size_bytes"] > 1_000_000
    ]
    assert sram["sticking_out"] == out_there != []
    assert captured.err.count("\n") == 1
    assert f"sram does not fit by {sram['over_bytes']:,} bytes (proved impossible" in captured.err
    assert out_there[0] in captured.err
    assert "next: sram holds too much at one step" in captured.err
    assert f"no, by {sram['over_bytes']:,} bytes: impossible" in captured.out


@pytest.mark.parametrize(
    ("verdict", "align", "named"),
    [
        ("impossible", 64, "--align 16"),
        ("impossible", 1, "give sram 100 bytes less"),
        ("not found", 64, "--seconds 60"),
    ],
)
def test_what_does_not_fit_names_what_to_try_next(verdict, align, named):
    memory = {
        "memory": "sram",
        "packed": False,
        "verdict": verdict,
        "over_bytes": 100,
        "sticking_out": ["weight of a"],
    }
    report = {"align_bytes": align, "memories": [memory | {"fullest_bytes": 900, "capacity_bytes": 1000}]}
    assert f"next: {named}" in failure(report, 10.0)


def table(path: Path, *rows: tuple[object, ...], head: str = "op,head,offset_bytes") -> str:
    path.write_text("\n".join([head, *(",".join(map(str, row)) for row in rows)]), encoding="utf-8")
    return str(path)


def test_given_addresses_are_kept_by_allocate_and_export_and_the_rest_goes_around_them(run, tmp_path, capsys):
    assert main(["allocate", str(run)]) == 0
    free = json.loads((run / "allocation.json").read_text())
    last = next(t for t in reversed(free["tensors"]) if t["head"] == "activation")
    first = next(t for t in free["tensors"] if t["memory"] == last["memory"] and t["head"] == "weight")
    far = {(t["op"], t["head"]): at for t, at in ((last, 6400), (first, 2**20))}
    fixed = table(
        tmp_path / "f.csv", *((*key, at) for key, at in far.items()), (free["tensors"][3]["op"], "weight", "")
    )
    capsys.readouterr()
    assert main(["allocate", str(run), "--fixed", fixed]) == 0
    assert f"kept: 2 offsets of {fixed}" in capsys.readouterr().out
    report = json.loads((run / "allocation.json").read_text())
    found = {(t["op"], t["head"]): t["offset_bytes"] for t in report["tensors"]}
    assert far.items() <= found.items()
    for memory, tensors in zip(report["memories"], tensors_by_memory(report).values(), strict=True):
        lives = [(t["op"], t["size_bytes"], t["first_step"], t["last_step"] + 1) for t in tensors]
        assert judge(lives, [t["offset_bytes"] for t in tensors], memory["capacity_bytes"], 64) == []
    (tmp_path / "kept.json").write_text(json.dumps(report | {"tensors": report["tensors"][:5]}))
    assert main(["allocate", str(run), "--fixed", str(tmp_path / "kept.json"), "--json"]) == 0
    again = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert again["tensors"][:5] == report["tensors"][:5]
    assert main(["export", str(run), "-o", str(tmp_path / "m.csv"), "--fixed", fixed]) == 0
    with (tmp_path / "m.csv").open(newline="") as stream:
        exported = {(r["op"], r["head"]): int(r["offset_bytes"]) for r in csv.DictReader(stream)}
    assert exported == found


def test_addresses_that_cannot_be_kept_are_refused_in_one_line(run, tmp_path, capsys):
    assert main(["allocate", str(run)]) == 0
    tensors = json.loads((run / "allocation.json").read_text())["tensors"]
    one, other = [t for t in tensors if t["head"] == "weight" and t["memory"] == tensors[0]["memory"]][:2]
    name, key = f"weight of {one['op']}", (one["op"], "weight")
    columns = "op,head,memory,offset_bytes"
    elsewhere = next(name for name in ("dram", "llc", "sram") if name != one["memory"])
    wrong = {
        f"buffers overlap at {name} and weight of {other['op']}": [(*key, 0), (other["op"], "weight", 64)],
        f"buffer sticks out at {name}": [(*key, 2**40)],
        f"offset not aligned at {name}": [(*key, 100)],
        f"line 3: expected each tensor once, found the {name[:6]} of": [(*key, 0), (*key, 64)],
        "line 2: expected an op and a head of the mapping, found 'conx'": [("conx", "weight", 0)],
        "line 2: expected an op and a head of the mapping, found 'wight'; did": [(one["op"], "wight", 0)],
        "line 2: offset_bytes: expected a whole number of bytes not below 0, found '-64'": [(*key, -64)],
        "line 2: offset_bytes: expected a whole number of bytes not below 0, found 'x'": [(*key, "x")],
    }
    for said, rows in wrong.items():
        file = table(tmp_path / "f.csv", *rows)
        refuse(capsys, ["allocate", str(run), "--fixed", file], "f.csv: ", said)
    file = table(tmp_path / "f.csv", (*key, elsewhere, 0), head=columns)
    said = (
        f"{name}: expected an address in {one['memory']}, where the mapping has it, found one in {elsewhere}"
    )
    refuse(capsys, ["allocate", str(run), "--fixed", file], said)
    file = table(tmp_path / "f.csv", (tensors[-1]["op"], 0), head="op,offset_bytes")
    refuse(capsys, ["allocate", str(run), "--fixed", file], "expected the columns op,head,offset_bytes")
    file = table(tmp_path / "f.csv", (tensors[-1]["op"], "weight", 0))
    refuse(
        capsys,
        ["allocate", str(run), "--fixed", file],
        "expected a tensor that the mapping places, found none",
    )
    refuse(capsys, ["allocate", str(run), "--fixed", str(tmp_path / "no.csv")], "no.csv")
    refuse(capsys, ["export", str(run), "-o", str(tmp_path / "m.json"), "--fixed", file], "--fixed")


def test_wrong_input_is_one_line(run, tmp_path, capsys):
    refuse(capsys, ["allocate"], "expected a run folder or --workload, found neither")
    refuse(capsys, ["allocate", str(run), "--workload", "bert"], "found", "--workload")
    refuse(capsys, ["allocate", str(run), "--set", "problem.invalid=repair"], "--set")
    refuse(capsys, ["allocate", str(tmp_path)], "summary.json")
    refuse(capsys, ["allocate", str(run), "--align", "0"], "--align")
    refuse(capsys, ["allocate", str(run), "-o", str(tmp_path / "no" / "a.json")], "--output", "found no")
    refuse(capsys, ["allocate", str(run), "--seconds", "nan"], "--seconds")
    refuse(capsys, ["allocate", "--workload", "alexnet", "--mapping", "none.json"], "none.json")
    assert not (run / "allocation.json").exists()


@pytest.mark.parametrize("name", TOYS)
def test_a_problem_without_lifetimes_says_so_in_one_line(name):
    problem = TOYS[name]()
    with pytest.raises(InputError, match=r"^allocate: expected a problem with lifetimes of tensors"):
        export.allocate(problem, problem.space.initial, 64, 1.0, 0)
