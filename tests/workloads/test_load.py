from __future__ import annotations

import os
import subprocess
import sys

import pytest

from workloads.errors import InputError
from workloads.load import load, names
from workloads.serialize import to_json
from workloads.workload import Op
from workloads.zoo.cnn import resnet


@pytest.mark.parametrize("name", ["resnet50", "ResNet-50", "resnet_50"])
def test_a_network_is_found_by_its_name_however_it_is_spelled(name):
    assert load(name) == resnet(50)


def test_every_listed_name_loads_a_workload_of_that_name():
    assert len(names()) == 12
    for name in names():
        assert load(name).name == name


def test_a_file_is_loaded_by_its_path(tmp_path, chain):
    file = tmp_path / "chain.json"
    file.write_text("\ufeff" + to_json(chain), encoding="utf-8")
    assert load(str(file)) == chain


def test_a_file_without_a_suffix_is_loaded_from_here(tmp_path, chain, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").write_text(to_json(chain), encoding="utf-8")
    assert load("mine") == chain


def test_a_zoo_name_wins_over_a_file(tmp_path, chain, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "alexnet").write_text(to_json(chain), encoding="utf-8")
    assert load("alexnet").name == "alexnet"


def refusal(name: str) -> str:
    with pytest.raises(InputError) as caught:
        load(name)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_unknown_name_is_answered_with_close_ones_and_with_how_to_list_all():
    message = refusal("resnet51")
    assert "'resnet51'" in message
    assert "resnet50" in message
    assert "egrl list workloads" in message
    assert "did you mean" not in refusal("zzzzzz")


def test_a_missing_file_is_named():
    assert "no/such.json: expected a workload file (.json): No such file" in refusal("no/such.json")


def test_a_directory_is_no_workload(tmp_path):
    assert "found a folder" in refusal(str(tmp_path))


def test_a_pipe_is_refused_without_waiting_for_it(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    assert "found a special file" in refusal(str(tmp_path / "pipe.json"))


def test_binary_garbage_is_refused_with_its_offset(tmp_path):
    (tmp_path / "g.json").write_bytes(b"{ \xff\xfe\x00")
    assert "UTF-8, found other bytes at offset 2" in refusal(str(tmp_path / "g.json"))


def test_a_broken_file_is_named_with_line_and_column(tmp_path):
    file = tmp_path / "b.json"
    file.write_text("{\n  oops", encoding="utf-8")
    assert refusal(str(file)).startswith(f"{file}: line 2, column 3")


def test_an_oversized_file_is_refused_before_it_is_read(tmp_path):
    with open(tmp_path / "big.json", "wb") as file:
        file.truncate(2**30)
    assert "at most 536870912 bytes, found 1073741824" in refusal(str(tmp_path / "big.json"))


@pytest.mark.parametrize("name", ["", "\n", "a\0b.json", "x" * 5000 + ".json", "x" * 5000])
def test_strange_names_are_refused_in_one_line(name):
    assert ": expected " in refusal(name)


def test_listing_names_imports_neither_a_parser_nor_a_learning_framework():
    code = "import sys, workloads.load as l; l.names(); print({'pydantic', 'torch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("given", "name", "ops"),
    [
        ("bert:layers=6:length=256", "bert-length256-layers6", 196),
        ("ResNet-50:batch=4", "resnet50-batch4", 57),
        ("mobilenet_v2:width=1.4", "mobilenet_v2-width1.4", 55),
    ],
)
def test_a_variant_is_another_size_of_a_network_in_the_zoo(given, name, ops):
    found = load(given)
    assert (found.name, len(found)) == (name, ops)


def test_a_variant_of_too_many_ops_is_refused_before_they_are_made(monkeypatch):
    builder = sys.modules["workloads.zoo.builder"]
    monkeypatch.setattr(builder, "MAX_OPS", 76)
    assert len(load("bert:layers=2")) == 76
    made = []
    monkeypatch.setattr(builder, "Op", lambda **fields: made.append(Op(**fields)) or made[-1])
    with pytest.raises(InputError, match="'bert:layers=900': ops: expected at most 76 ops"):
        load("bert:layers=900")
    assert len(made) == 76


def test_a_switch_of_a_variant_is_0_or_1():
    assert load("unet:padded=0") == load("unet")
    assert load("unet:padded=1:resolution=64").name == "unet-resolution64-paddedTrue"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("bert:layer=3", ["layers=NUMBER", "'layer=3'"]),
        ("bert:layers=3:layers=4", ["at most once"]),
        ("resnet50:", ["batch=NUMBER", "''"]),
        ("resnet50:batch=x", ["batch: expected a whole number", "'x'"]),
        ("resnet50:batch=-1", ["batch: expected above 0", "-1"]),
        ("vgg16:resolution=3", ["resolution: expected at least 2 at pool2, received 1"]),
        ("mobilenet_v2:width=nan", ["width: expected above 0", "nan"]),
        ("bert:length=2000000", ["length: expected above 0 and below 1,000,000, found 2000000"]),
        (f"bert:length={'9' * 400}", ["length: expected above 0 and below 1,000,000"]),
        ("unet:padded=2", ["padded: expected 0 or 1, found '2'"]),
        ("unet:padded=False", ["padded: expected 0 or 1, found 'False'"]),
        ("bert:hidden=100", ["heads: expected a divisor of hidden = 100"]),
        ("resnet18:depth=34", ["'depth=34'"]),
        ("resnot:batch=2", ["expected a name"]),
    ],
)
def test_a_wrong_variant_is_refused_with_what_it_may_say(given, words):
    with pytest.raises(InputError) as caught:
        load(given)
    for word in words:
        assert word in str(caught.value)
