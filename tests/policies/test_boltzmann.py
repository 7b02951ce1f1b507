"""Boltzmann chromosomes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from policies.boltzmann import COLDEST, HOTTEST, boltzmann, entropy, temperature_of_same_entropy

PRIORS = arrays.arrays(np.float32, (3, 2, 4), elements=st.floats(0, 1, width=32))
TEMPERATURES = arrays.arrays(np.float32, (3, 2), elements=st.floats(np.float32(0.02).item(), 10, width=32))
COUNTS = arrays.arrays(np.int16, (3, 2), elements=st.integers(1, 4))


@given(PRIORS, TEMPERATURES, COUNTS)
def test_probabilities_are_softmax_of_prior_over_temperature_among_legal_choices(prior, temperature, counts):
    out = boltzmann(prior, temperature, counts)
    assert out.dtype == np.float32
    for n in range(3):
        for h in range(2):
            count = counts[n, h]
            energy = prior[n, h, :count].astype(np.float64) / temperature[n, h]
            share = np.exp(energy - energy.max())
            assert np.allclose(out[n, h, :count], share / share.sum(), atol=1e-5)
            assert not out[n, h, count:].any()


@given(PRIORS, COUNTS)
def test_a_hotter_chromosome_is_never_more_certain(prior, counts):
    cold = boltzmann(prior, np.full((3, 2), 0.3, dtype=np.float32), counts)
    hot = boltzmann(prior, np.full((3, 2), 3.0, dtype=np.float32), counts)
    assert (entropy(hot) >= entropy(cold) - 1e-5).all()


@given(PRIORS, COUNTS)
def test_the_matched_temperature_gives_a_chromosome_the_entropy_of_its_prior(raw, counts):
    legal = np.arange(4) < counts[..., None]
    p = (raw + np.float32(0.01)) * legal
    p /= p.sum(-1, keepdims=True)
    temperature = temperature_of_same_entropy(p, counts)
    inside = (temperature > COLDEST * 1.01) & (temperature < HOTTEST * 0.99)
    out = boltzmann(p, temperature, counts)
    assert np.allclose(entropy(out)[inside], entropy(p)[inside], atol=2e-3)
    clear = p.max(-1) - np.partition(p, -2, axis=-1)[..., -2] > 1e-3
    assert np.array_equal(out.argmax(-1)[clear], p.argmax(-1)[clear])


def test_a_temperature_that_is_not_positive_is_refused():
    with pytest.raises(ValueError, match="temperature: expected positive values, received 0"):
        boltzmann(
            np.ones((1, 1, 2), dtype=np.float32),
            np.zeros((1, 1), dtype=np.float32),
            np.full((1, 1), 2, np.int16),
        )
