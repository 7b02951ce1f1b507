"""Sets of workloads by a name, and the split of the 87 graphs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from workloads.errors import InputError
from workloads.load import all_names, load, load_program, names
from workloads.load_partition import load_partition
from workloads.zoo.decoder import DECODERS
from workloads.zoo.mcm87 import MCM87, SIZES, is_set, members, split

PAPER = {"training": 66, "validation": 5, "test": 16}
SEEDS = (0, 1, 2, 3, 35, 12345)
"""Without a further draw seed 35 would train on no member of a family."""


def parts(seed: int) -> list[tuple[str, ...]]:
    found = split(seed)
    return [found.training, found.validation, found.test]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_split_deals_all_87_once_to_parts_of_the_papers_sizes(seed):
    assert [len(part) for part in parts(seed)] == list(PAPER.values()) == list(SIZES.values())
    assert sorted(name for part in parts(seed) for name in part) == sorted(MCM87)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_family_is_trained_on(seed):
    assert {MCM87[name].family for name in split(seed).training} == {e.family for e in MCM87.values()}


def test_the_same_seed_is_the_same_split_and_others_are_others():
    assert split(3) == split(3)
    assert len({split(seed) for seed in SEEDS}) == len(SEEDS)


def test_the_large_bert_is_held_out_and_so_is_every_transformer():
    assert {"bert", "bert_large", "gpt2"} <= set(names())
    assert not {"bert", "bert_large", "gpt2"} & set(MCM87)


def test_parts_of_the_set_are_those_of_the_split():
    assert members("mcm87") == tuple(MCM87)
    assert members("mcm87:training") == split().training
    assert members("MCM87:Test") == split().test
    assert members("mcm87:validation:seed=7") == split(7).validation


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("mcm87:tset", "expected one of the sets mcm87, mcm87:training, mcm87:validation, mcm87:test"),
        ("mcm87:", "expected one of the sets"),
        ("mcm87:seed=3", "expected one of the sets"),
        ("mcm87:test:seed", "expected seed=N with N a whole number, found 'seed'"),
        ("mcm87:test:seed=-1", "found 'seed=-1'"),
        ("mcm87:test:sede=1", "found 'sede=1'"),
        ("mcm87:test:seed=1:seed=2", "expected one of the sets"),
        ("cnn:test", "expected one of the sets"),
    ],
)
def test_an_unknown_set_is_refused_in_one_line(given, words):
    with pytest.raises(InputError, match=re.escape(words)) as caught:
        members(given)
    assert repr(given) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("find", [load, load_partition, load_program])
def test_a_set_is_no_workload_and_says_so(find):
    with pytest.raises(InputError, match="expected one workload, found a set of 16"):
        find("mcm87:test")


def test_only_the_name_of_a_set_is_one():
    assert is_set("mcm87")
    assert is_set("mcm87:anything")
    assert not any(is_set(name) for name in (*all_names(), "mcm", "mcm870", "./mcm87"))


def test_every_name_of_zoo_and_set_is_listed_once():
    assert len(all_names()) == len(set(all_names())) == len({*names(), *DECODERS, *MCM87})


def test_a_name_of_the_set_takes_other_sizes_and_tells_them():
    assert load("DenseNet-121").name == "densenet121"
    assert load("densenet121:batch=4").name == "densenet121-batch4"
    assert load("efficientnet_b1:batch=3:depth=1.1").name == "efficientnet_b1-batch3"
    with pytest.raises(InputError, match="depth=NUMBER"):
        load("efficientnet_b1:deepness=2")


def test_a_shipped_file_has_one_size():
    with pytest.raises(
        InputError, match="'dcgan:batch=4': expected no parameters: this network is a shipped file"
    ):
        load("dcgan:batch=4")


def test_networks_that_are_in_both_are_the_same():
    shared = sorted(set(names()) & set(MCM87))
    assert shared == ["mobilenet_v2", "resnet101", "resnet152", "resnet18", "resnet34", "resnet50"]
    for name in shared:
        assert MCM87[name].builder(name)() == load(name)


def test_naming_a_set_builds_no_network():
    import subprocess
    import sys

    code = (
        "import sys; from workloads.zoo.mcm87 import members; members('mcm87:test');"
        "print([m for m in ('cnn', 'transformer', 'decoder') if f'workloads.zoo.{m}' in sys.modules])"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert done.stdout.strip() == "[]"
