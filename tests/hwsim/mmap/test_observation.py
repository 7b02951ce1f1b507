"""What policies see of a program."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given
from mmap_programs import chips, playable, programs

from hwsim.mmap.chip import Chip, Cmem, Compute, Hbm
from hwsim.mmap.observation import FEATURES, SECONDS_SCALE, edges, features
from hwsim.mmap.tables import build_tables
from workloads.programs.program import Buffer, Instruction, Program, Tensor

CHIP = Chip("c", Cmem(4096, 16, 3e9, 2e9), Hbm(1e9), Compute(1e9))
PROGRAM = Program(
    "p",
    tuple(Instruction(f"i{k}", "dot", 0) for k in range(3)),
    (
        Tensor("w", 600, -1, 2),
        Tensor("a", 300, 0, 1),
        Tensor("s", 60, -1, 1),
        Tensor("n", 60, 1, 2, True),
        Tensor("big", 5000, 2, 2),
    ),
    (
        Buffer(0, 0, False, 600),
        Buffer(1, 0, True, 300),
        Buffer(1, 1, False, 300),
        Buffer(2, 1, False, 60, 0),
        Buffer(3, 1, True, 60, 0),
        Buffer(0, 2, False, 0),
        Buffer(3, 2, False, 60, 0),
        Buffer(4, 2, True, 5000),
    ),
)


def test_edges_lead_to_outputs_to_the_next_use_and_to_the_next_of_an_alias_group():
    assert edges(PROGRAM).T.tolist() == [
        *([0, 1], [0, 5], [1, 2], [2, 4], [3, 4], [4, 6], [5, 7], [6, 7]),
    ]


def test_columns_say_what_table_1_says():
    x = features(PROGRAM, build_tables(PROGRAM, CHIP))
    column = {name: x[:, position] for position, name in enumerate(FEATURES)}
    np.testing.assert_allclose(
        column["size"], np.log1p([600, 300, 300, 60, 60, 600, 60, 5000]) / 16, rtol=1e-6
    )
    # A copy of 600 bytes takes 600 ns; reading them from fast memory takes a third of it.
    np.testing.assert_allclose(column["demand"][0], np.log1p(600) * SECONDS_SCALE, rtol=1e-6)
    np.testing.assert_allclose(column["benefit"][0], np.log1p(400) * SECONDS_SCALE, rtol=1e-6)
    np.testing.assert_allclose(column["supply"][:2], np.log1p(350) * SECONDS_SCALE, rtol=1e-6)
    assert column["benefit"][5] == 0
    assert column["is_output"].tolist() == [0, 1, 0, 0, 1, 0, 0, 1]
    assert column["is_parameter"].tolist() == [1, 0, 0, 1, 0, 1, 0, 0]
    assert column["leaves"].tolist() == [0, 0, 0, 0, 1, 0, 1, 0]
    assert column["fits"].tolist() == [1, 1, 1, 1, 1, 1, 1, 0]
    counts = {
        name: np.expm1(column[name] * 8).round().tolist() for name in ("uses", "uses_before", "group_size")
    }
    assert counts == {
        "uses": [2, 2, 2, 1, 2, 2, 2, 1],
        "uses_before": [0, 0, 1, 0, 0, 1, 1, 0],
        "group_size": [0, 0, 0, 3, 3, 0, 3, 0],
    }
    times = {
        name: np.expm1(column[name] * 8).round().tolist()
        for name in ("since_live", "until_dead", "until_end")
    }
    assert times == {
        "since_live": [0, 0, 1, 1, 0, 2, 1, 0],
        "until_dead": [2, 1, 0, 0, 1, 0, 0, 0],
        "until_end": [2, 2, 1, 1, 1, 0, 0, 0],
    }


@given(programs(), chips())
def test_what_is_seen_is_finite_and_of_one_shape(program, chip):
    assume(playable(program))
    x, pairs = features(program, build_tables(program, chip)), edges(program)
    assert x.shape == (len(program), len(FEATURES))
    assert x.dtype == np.float32
    assert np.isfinite(x).all()
    assert (x >= 0).all()
    assert (pairs[0] < pairs[1]).all()
    assert len(np.unique(pairs, axis=1).T) == pairs.shape[1]
