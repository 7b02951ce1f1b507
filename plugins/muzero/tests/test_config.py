from typing import get_args, get_type_hints

import pytest

from egrl.cli.run import ablation_setting
from egrl_muzero.config import Discount, PlayConfig, Temperature
from workloads.errors import InputError


def test_the_horizon_grows_evenly_in_its_logarithm_and_then_stays():
    discount = Discount(first=0.9, last=0.999, steps=10)
    assert discount.at(0) == pytest.approx(0.9)
    assert discount.at(5) == pytest.approx(0.99)
    assert discount.at(10) == discount.at(1000) == pytest.approx(0.999)


def test_the_temperature_falls_in_a_straight_line_and_then_stays():
    temperature = Temperature(initial=1.0, final=0.2, steps=4)
    assert [temperature.at(step) for step in (0, 1, 4, 9)] == pytest.approx([1.0, 0.8, 0.2, 0.2])


def test_every_part_that_an_agent_can_do_without_is_a_choice_of_the_command():
    parts = set(get_args(get_type_hints(PlayConfig)["ablation"])) - {"none"}
    assert {ablation_setting("muzero", part) for part in parts} == {
        f"method.ablation={part}" for part in parts
    }
    with pytest.raises(
        InputError, match="--ablation: expected one of no-learning, no-search, no-revision, found"
    ):
        ablation_setting("muzero", "none")
