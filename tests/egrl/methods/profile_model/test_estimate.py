"""What the critic thinks that a measured mapping costs: the measurement and the model together."""

from __future__ import annotations

import numpy as np

from egrl.methods.profile_model.contract import ProfileModelConfig
from egrl.methods.profile_model.data import Measured
from egrl.methods.profile_model.op_times import Belief, OpTimesModel
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiProblem
from workloads.load import load

NOISE = 0.01


def estimates(off: float) -> tuple[float, float]:
    """How far an estimate is from the measurement and from the model, where the first is `off` above the second."""
    problem = NnpiProblem(load("alexnet"), load_chip("nnpi"))
    critic = OpTimesModel(problem, ProfileModelConfig())
    rng = np.random.default_rng(0)
    mapping = np.stack([rng.permutation(problem.space.initial) for _ in range(40)]).astype(np.int16)
    seconds = np.log(rng.uniform(1e-6, 1e-5, problem.space.shape[0]))
    measured = Measured(
        np.arange(40),
        mapping,
        np.full(40, np.log(np.exp(seconds).sum())),
        np.tile(seconds, (40, 1)) + 0.05 * rng.standard_normal((40, len(seconds))),
        np.ones(40, np.int64),
        NOISE,
        "sum",
        np.ones(40),
    )
    *_, belief = run(critic.think(measured, set(), rng))
    assert isinstance(belief, Belief)
    plain = critic.estimate(belief, measured)
    measured.log_cost[7] = plain[7] + off
    return critic.estimate(belief, measured)[7] - measured.log_cost[7], critic.estimate(belief, measured)[
        7
    ] - plain[7]


def run(work):
    """What a generator returns."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


def test_a_cost_far_above_what_the_model_says_is_believed():
    from_measured, _ = estimates(+6 * NOISE)
    assert abs(from_measured) < NOISE


def test_a_lucky_measurement_is_not_believed():
    from_measured, from_model = estimates(-2 * NOISE)
    assert abs(from_model) < abs(from_measured)
