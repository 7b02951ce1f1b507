from __future__ import annotations

import numpy as np
import pytest

from egrl_muzero.potential import Potential
from egrl_muzero.ring import Ring
from egrl_muzero.table import Table
from egrl_muzero.targets import ends_of, targets
from toys import CoinGame

GAMMA, UNROLL, STEPS = 0.9, 2, 3


def remembered(rows: int, moves: int = 40) -> tuple[Ring, Potential, list[dict]]:
    """A ring filled by random play, a potential, and every move as a dict."""
    rng = np.random.default_rng(1)
    table = Table([CoinGame()], 3)
    potential = Potential([CoinGame()], GAMMA, 0.3)
    ring = Ring(table.observe(), rows, len(table), 4)
    log = []
    for _ in range(moves):
        seen, legal = table.observe(), table.legal()
        policy = rng.random(legal.shape) * legal
        moved = table.move(policy.argmax(axis=1))
        scalars = {
            "action": policy.argmax(axis=1),
            "reward": moved.reward,
            "place": moved.place,
            "after": moved.after,
            "done": moved.done,
            "value": rng.normal(size=3),
            "stray": rng.random(3) < 0.1,
        }
        ring.write(scalars, policy, legal, seen)
        potential.learn(moved.place, moved.reward, moved.after)
        log.append({**scalars, "policy": policy, "coins": seen["coins"]})
    potential.refresh()
    return ring, potential, log


def plain(log: list[dict], potential: Potential, t: int, b: int) -> tuple[int | None, float]:
    """When the n-step return of a move takes a value, and that return, the slow and obvious way."""
    total = 0.0
    for i in range(STEPS + 1):
        here = log[t + i]
        if here["stray"][b] or i == STEPS or (t + i + 1 == len(log) and not here["done"][b]):
            return t + i, total + GAMMA**i * float(np.float32(here["value"][b]))
        phi = potential.value
        reward = here["reward"][b] + GAMMA * phi[here["after"][b]] - phi[here["place"][b]]
        total += GAMMA**i * reward
        if here["done"][b]:
            return None, total
    raise AssertionError


@pytest.mark.parametrize("rows", [64, 17])
def test_targets_equal_the_plain_ones(rows):
    ring, potential, log = remembered(rows)
    time = np.repeat(np.arange(ring.first, ring.end), 3)
    slot = np.tile(np.arange(3), ring.end - ring.first)
    found = targets(ring, ring.end, time, slot, UNROLL, STEPS, potential)
    ends = set()
    for m, (t, b) in enumerate(zip(time.tolist(), slot.tolist(), strict=True)):
        alive = True
        for k in range(UNROLL + 1):
            alive = alive and t + k < len(log) and not (k and log[t + k - 1]["done"][b])
            assert found.alive[m, k] == alive
            if not alive:
                continue
            when, returned = plain(log, potential, t + k, b)
            assert found.value[m, k] == pytest.approx(returned, rel=1e-5, abs=1e-5)
            ends |= {(when, b)} - {(None, b)}
            assert np.allclose(found.policy[m, k], log[t + k]["policy"][b])
            if k < UNROLL:
                assert found.action[m, k] == log[t + k]["action"][b]
                assert found.reward[m, k] == pytest.approx(log[t + k]["reward"][b])
    times, slots = ends_of(ring, ring.end, time, slot, UNROLL, STEPS)
    assert list(zip(times.tolist(), slots.tolist(), strict=True)) == sorted(ends)


def test_what_was_seen_is_given_back():
    ring, _, log = remembered(17)
    time, slot = np.array([25, 39, 30]), np.array([2, 0, 1])
    seen = ring.seen(time, slot)
    assert seen["coins"].ravel().tolist() == [log[t]["coins"][b, 0] for t, b in zip(time, slot, strict=True)]


def test_images_come_back_bit_by_bit():
    image = np.random.default_rng(0).integers(0, 2, (2, 3, 5)).astype(np.uint8)
    ring = Ring({"memory_map": image}, 4, len(image), 3)
    ring.write_seen(1, {"memory_map": image})
    assert np.array_equal(ring.seen(np.array([1, 1]), np.array([0, 1]))["memory_map"], image)
