import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from egrl_muzero.categorical import Support, squash, unsquash


@given(st.floats(-1e4, 1e4))
def test_unsquash_undoes_squash(x):
    there = squash(torch.tensor(x, dtype=torch.float64))
    assert math.isclose(float(unsquash(there)), x, rel_tol=1e-6, abs_tol=1e-6)


def test_squash_is_the_papers_transform():
    assert float(squash(torch.tensor(8.0))) == pytest.approx(math.sqrt(9) - 1 + 0.001 * 8)
    assert float(squash(torch.tensor(-8.0))) == pytest.approx(-(math.sqrt(9) - 1 + 0.001 * 8))


@given(st.lists(st.floats(-200, 200), min_size=1, max_size=5))
def test_a_two_hot_target_stands_for_its_scalar(values):
    support = Support(61, 15.0)
    x = torch.tensor(values)
    target = support.two_hot(x)
    assert torch.allclose(target.sum(-1), torch.ones(len(values)))
    assert bool(((target > 0).sum(-1) <= 2).all())
    assert torch.allclose(support.mean(torch.log(target)), x, rtol=1e-3, atol=1e-3)


def test_what_lies_beyond_the_support_is_clipped_to_its_end():
    support = Support(5, 2.0)
    assert support.two_hot(torch.tensor([1e6, -1e6])).tolist() == [[0, 0, 0, 0, 1], [1, 0, 0, 0, 0]]


@pytest.mark.parametrize(("bins", "most"), [(4, 1.0), (1, 1.0), (5, 0.0)])
def test_a_support_without_a_middle_or_a_width_is_refused(bins, most):
    with pytest.raises(ValueError, match="support: expected odd bins"):
        Support(bins, most)
