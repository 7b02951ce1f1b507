"""When the best last gained, and what the progress line says of it."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from egrl.core.contracts import Budget
from egrl.runs import progress
from egrl.runs.progress import GAIN, IDLE, Gains


def row(evaluations: int, speedup: float, **more: Any) -> dict[str, Any]:
    return {
        "evaluations": evaluations,
        "best_speedup": speedup,
        "champion_source": "network",
        "valid_fraction": 1.0,
    } | more


def gains_of(*speedups: float, every: int = 10) -> Gains:
    """Generations of `every` evaluations, each with a best speedup."""
    return Gains(every, [row(every * n, speedup) for n, speedup in enumerate(speedups, 1)])


@pytest.mark.parametrize(
    ("speedups", "last"),
    [
        ((1.0, 1.2, 1.2, 1.2), (20, 1.2)),
        ((1.0, 1.2, 1.2 * (1 + 0.9 * GAIN), 1.2), (40, 1.2)),  # a worse one is the best now
        ((1.0, 1.2, 1.2 * (1 + 0.9 * GAIN)), (20, 1.2)),
        ((1.0, 1.2, 1.2 * (1 + 1.1 * GAIN)), (30, 1.2 * (1 + 1.1 * GAIN))),
        ((1.0, 1 + 0.6 * GAIN, 1 + 1.2 * GAIN), (20, 1 + 0.6 * GAIN)),  # small steps add up
        ((0.0, 0.0), (20, 0.0)),
        ((0.0, 1.0, 1.0), (20, 1.0)),
        ((), (0, 0.0)),
    ],
)
def test_the_last_gain_is_where_all_that_follows_is_rounding(speedups, last):
    assert gains_of(*speedups).last() == last


def test_small_rises_count_as_none_only_together():
    speedups = [1.0]
    while len(speedups) < 60:
        speedups.append(speedups[-1] * (1 + 0.3 * GAIN))
    assert gains_of(*speedups).idle(4) == 0
    assert gains_of(*speedups).idle(3) == 30


def test_a_run_that_goes_on_counts_from_its_rows_as_if_it_had_never_stopped():
    speedups = [1.0, 1.3, *[1.3] * 30]
    whole, again = gains_of(*speedups), gains_of(*speedups[:7])
    for n, speedup in enumerate(speedups[7:], 8):
        again.generation({key: str(value) for key, value in row(10 * n, speedup).items()})
    assert (again.last(), again.idle(IDLE), again.rises) == (whole.last(), 300, whole.rises)


def test_where_the_reward_chooses_the_best_it_is_the_reward_that_gains():
    same = [row(10 * n, 1.1, best_reward=-0.5 + 0.01 * n) for n in range(1, 31)]
    assert Gains(10, same).last() == (300, 1.1)
    assert Gains(10, [{**each, "best_reward": -0.5} for each in same]).last() == (10, 1.1)


def test_a_noisy_board_has_no_gains_to_count():
    noisy = [row(10 * n, 1.1, confirmed_speedup="nan") for n in range(1, 31)]
    assert Gains(10, noisy).idle(1) == 0


@pytest.mark.parametrize("terminal", [True, False])
def test_the_progress_line_says_for_how_long_nothing_was_gained(terminal, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    gains = Gains(500)
    with progress.observer("bert egrl", Budget(9000, None, 500), 0, False, gains) as bar:
        bar._bar.mininterval = 0.0
        said = {}
        for count in range(500, 9000, 500):
            capsys.readouterr()
            for observer in (gains, bar):
                observer.generation(row(count, 1.25 if count > 500 else 1.0))
            bar.evaluations(count, 1.25)
            said[count] = capsys.readouterr().err
    assert [count for count, text in said.items() if "no gain" in text] == list(
        range(1000 + 500 * IDLE, 9000, 500)
    )
    assert "best 1.250x by network, no gain in 5,000 evaluations, 100% valid, " in said[6000]
