"""Chips around one: drawn, valid, and the chip itself where nothing is changed."""

from __future__ import annotations

import numpy as np
import pytest

from hwsim.nnpi.chip import chip_around, chip_with, load_chip


def test_a_chip_around_another_is_a_chip_and_factors_of_zero_are_the_chip_itself():
    chip = load_chip("nnpi")
    assert chip_with(chip, [0.0] * 6) == chip
    for seed in range(20):
        drawn = chip_around(chip, np.random.default_rng(seed), "other")
        assert drawn.name == "other"
        for own, from_ in zip(drawn.memories, chip.memories, strict=True):
            assert 2**-1.5 - 1e-9 <= own.capacity_bytes / from_.capacity_bytes <= 2**1.5 + 1e-9
        assert drawn == chip_around(chip, np.random.default_rng(seed), "other")
    with pytest.raises(ValueError, match="factors: expected 6, received 5"):
        chip_with(chip, [0.0] * 5)
