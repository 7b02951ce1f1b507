"""What two models say of the same partitions."""

from __future__ import annotations

import numpy as np
import pytest

from papers.mcm.figures import agreement, agreement_figure


def test_agreement_is_over_what_runs_each_over_its_least():
    found = agreement(np.array([2.0, 4.0, 3.0, 8.0]), np.array([3.0, 6.0, np.nan, 12.0]))
    assert found.invalid == 0.25
    assert found.pearson == pytest.approx(1.0)
    assert found.predicted.tolist() == found.measured.tolist() == [1.0, 2.0, 4.0]
    assert len(agreement_figure(found, "title").axes) == 1


def test_nothing_that_runs_is_no_correlation():
    found = agreement(np.array([1.0]), np.array([np.inf]))
    assert np.isnan(found.pearson)
    assert found.invalid == 1.0
