"""Boltzmann chromosome: a policy without a network, one prior and one temperature per decision.

Source: EGRL, section 3 and appendix E: probabilities = softmax(prior / temperature), each decision by itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

COLDEST, HOTTEST = 0.01, 10.0
"""Closed interval of temperatures that `temperature_of_same_entropy` looks in."""


def legal_choices(num_choices: NDArray[np.int16], choices: int) -> NDArray[np.bool_]:
    """bool [N, H, C], choice < num_choices; a decision without choices keeps choice 0.

    Raises ValueError where `num_choices` is not [N, H] or asks for more than C choices.
    """
    if num_choices.ndim != 2:
        raise ValueError(f"num_choices: expected shape [N, H], received {list(num_choices.shape)}")
    if num_choices.size and int(num_choices.max()) > choices:
        raise ValueError(f"num_choices: expected at most {choices}, received {int(num_choices.max())}")
    return np.arange(choices) < np.maximum(num_choices, 1)[..., None]


def boltzmann(prior: Floats, temperature: Floats, num_choices: NDArray[np.int16]) -> Floats:
    """Probabilities float32 [..., N, H, C] of prior [..., N, H, C] and temperature [..., N, H] > 0.

    0 where choice >= num_choices [N, H]. Raises ValueError where shapes differ or a temperature is not
    positive.
    """
    if temperature.shape != prior.shape[:-1] or prior.shape[-3:-1] != num_choices.shape:
        raise ValueError(
            f"temperature: expected shape {list(prior.shape[:-1])} ending in {list(num_choices.shape)}, "
            f"received {list(temperature.shape)}"
        )
    if not (temperature > 0).all():
        raise ValueError(f"temperature: expected positive values, received {temperature.min()}")
    return _softmax(prior, temperature, legal_choices(num_choices, prior.shape[-1]))


def _softmax(prior: Floats, temperature: Floats, legal: NDArray[np.bool_]) -> Floats:
    # A tiny temperature may overflow to infinity; the greatest is subtracted, so that exp itself never does.
    with np.errstate(over="ignore"):
        energy = np.where(legal, prior / temperature[..., None], -np.inf)
        share = np.exp(energy - energy.max(axis=-1, keepdims=True))
    probabilities: Floats = (share / share.sum(axis=-1, keepdims=True)).astype(np.float32)
    return probabilities


def entropy(probabilities: Floats) -> Floats:
    """Entropy in nats over the last axis; 0 log 0 = 0."""
    nats: Floats = -(probabilities * np.log(np.where(probabilities > 0, probabilities, 1))).sum(axis=-1)
    return nats


def temperature_of_same_entropy(probabilities: Floats, num_choices: NDArray[np.int16]) -> Floats:
    """Temperatures [N, H] at which softmax(p / T) is as uncertain as p [N, H, C] itself, by bisection.

    Clipped to [COLDEST, HOTTEST], where a decision is certain or uniform.
    """
    wanted = entropy(probabilities)
    legal = legal_choices(num_choices, probabilities.shape[-1])
    low = np.full(wanted.shape, np.log(COLDEST), dtype=np.float32)
    high = np.full(wanted.shape, np.log(HOTTEST), dtype=np.float32)
    # In logarithms, since temperatures span three powers of ten. Entropy rises with the temperature, so each halving
    # keeps the root between low and high; 24 halvings are float32's precision.
    for _ in range(24):
        middle = (low + high) / 2
        colder = entropy(_softmax(probabilities, np.exp(middle), legal)) > wanted
        low, high = np.where(colder, low, middle), np.where(colder, middle, high)
    return np.clip(np.exp((low + high) / 2), COLDEST, HOTTEST).astype(np.float32)
