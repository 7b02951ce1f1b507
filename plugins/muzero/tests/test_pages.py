"""What pages say of the agent: its settings, and rewards of the runs that ship."""

from __future__ import annotations

import re
from functools import reduce
from pathlib import Path

import numpy as np
import pytest
from commands import module_of
from pages import block, blocks, table, words

from egrl.core import typed_tables
from egrl_muzero.config import PlayConfig
from egrl_muzero.mmap.parts import View, parts
from egrl_muzero.paper import kept

PLUGIN = Path(__file__).resolve().parents[1]
RESULTS = PLUGIN / "docs" / "results"
OBSERVATION = (PLUGIN / "docs" / "explanations" / "observation.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_rewards_of_the_game_are_those_of_the_runs_that_ship():
    rows = list(kept.tables(RESULTS / "data" / "mmap-runs.tar.xz"))
    page = (RESULTS / "muzero.md").read_text(encoding="utf-8")
    rewards = rows[1:5]
    assert [row.split(" | ")[0] for row in rewards] == [
        "| full agent",
        "| no-revision",
        "| `es`",
        "| `random`",
    ]
    for row in rewards:
        assert row in page
    assert rows[-1] == (
        "24 programs: speedup 1.0449 in the geometric mean, of the logarithm +0.0439 [+0.0132, +0.0746]; 1.0475 in the"
        " arithmetic mean, above 1 on 19"
    )


def test_the_settings_of_the_agent_exist_and_have_the_defaults_in_brackets():
    page = (PLUGIN / "README.md").read_text(encoding="utf-8")
    rows = [line.strip("|").split(" | ") for line in page.splitlines() if line.startswith("| `")]
    given = PlayConfig()
    defaults = {key: reduce(getattr, key.split("."), given) for key, _ in typed_tables.leaves(PlayConfig)}
    checked = 0
    for first, meaning in rows[1:]:
        keys = [part.split("=")[0] for part in re.findall(r"[\w.]+(?:=\S+)?", first.replace("`", ""))]
        assert set(keys) <= set(defaults), first
        given_as = [f"method.{part}" for part in first.replace("`", "").split() if "=" in part]
        typed_tables.build(PlayConfig, typed_tables.parse_set(given_as)["method"], first)
        said = re.findall(r"\[([\d.,]+)", meaning)
        for key, default in zip(keys, said, strict=False):
            assert defaults[key] == float(default.replace(",", "")), key
            checked += 1
    assert checked >= 5


def test_the_environment_is_made_as_its_page_says():
    (block,) = blocks(OBSERVATION, "python")
    names: dict = {}
    exec(block, names)
    assert names["seen"] in names["env"].observation_space
    assert (names["terminated"], names["truncated"], names["info"]["illegal"]) == (False, False, False)


def test_the_parts_of_an_observation_are_those_that_its_page_lists():
    text = OBSERVATION
    listed = {row[0].strip("`"): row[1:3] for row in table(text, "part")}
    shown = parts(View(held=1), buffers=1, tensors=9, groups=0, granules=32768)
    assert list(listed) == list(shown)
    for name, part in shown.items():
        shape = listed[name][0].replace("1 + k + l", "11")
        assert tuple(map(int, shape.split(", "))) == part.shape
        dtype, numbers = listed[name][1].split(", ")
        low, high = re.split(r" (?:or|…) ?", numbers)
        assert (dtype, float(low)) == (np.dtype(part.dtype).name, part.low)
        assert not high or float(high) == part.high


@pytest.mark.slow
def test_the_example_prints_the_words_of_its_page(capsys):
    assert module_of(PLUGIN / "example" / "play.py").main(["rnn_2"]) == 0
    page = (PLUGIN / "example" / "README.md").read_text(encoding="utf-8")
    shown, printed = words(block(page, "text")), words(capsys.readouterr().out)
    assert printed == shown
