"""Which settings to try: a coarse grid of SRAM limits and each switch alone, then neighbours of the best.

Vela's cycles as a function of the SRAM limit are steps, some of them large, and rise and fall
(`plugins/vela/log/options.md`). So limits are tried evenly first; then intervals beside the best are halved, but not
between two limits that gave one program. Switches are turned one at a time from the best settings, and limits of good
settings are tried with the switches of others.

It is no `Problem` that the methods of egrl search: what counts here is the order of the limits and what was found at
those beside them, and the methods know a decision's choices as names without an order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice, zip_longest

from egrl_vela.compiler import DEFAULT, OTHER_CORES, Outcome, Setting
from egrl_vela.runner import Runner
from egrl_vela.written import Written

ROUND = 4
"""Settings that are tried before the next ones are chosen: as many compiles run at once at most."""
GRID = (0.76, 0.6, 0.9, 0.5, 0.68, 0.83, 0.4)
"""The first limits, as shares of the SRAM that the default may use, or of what it does use if that is less."""
LOWEST = 0.25
"""No lower share is tried."""
FINEST = 1 / 256
"""Intervals of limits narrower than this share are not halved."""
GRAIN = 16
"""Limits are multiples of this many bytes, Vela's alignment."""
NEAR = 1 / 16
"""A switch is not turned at a limit if that was done within this share of it."""
BASES = 3
"""Neighbours are taken of this many of the best settings."""
Choose = Callable[[Mapping[Setting, Outcome]], Sequence[Setting]]


class Found:
    """What was found so far.

    Attributes:
        outcomes: of all settings that were tried, in their order, the default first.
        room_bytes: SRAM that a program may use.
    """

    def __init__(self, outcomes: Mapping[Setting, Outcome], room_bytes: int) -> None:
        self.outcomes, self.room_bytes = dict(outcomes), room_bytes

    @property
    def default(self) -> Written:
        """What Vela's default wrote."""
        made = self.outcomes[DEFAULT].written
        assert made is not None
        return made

    def unfit(self, made: Written) -> str:
        """Why a program is none to hand out; "" if it is one."""
        if made.sram_bytes > self.room_bytes:
            return "uses more SRAM than there is"
        return "" if made.outside == self.default.outside else "runs other ops on the CPU than the default"

    def ranked(self) -> list[Setting]:
        """Settings whose programs fit, the fewest cycles first, then the least SRAM, then the earliest."""
        fit = [
            (made.cycles, made.sram_bytes, number, setting)
            for number, (setting, outcome) in enumerate(self.outcomes.items())
            if (made := outcome.written) is not None and not self.unfit(made)
        ]
        return [row[-1] for row in sorted(fit)]

    def failures(self) -> dict[str, int]:
        """How often each kind of failure came, in the order of their first."""
        count: dict[str, int] = {}
        for outcome in self.outcomes.values():
            made = outcome.written
            if why := outcome.error if made is None else self.unfit(made):
                count[why] = count.get(why, 0) + 1
        return count


def search(
    runner: Runner, compiles: int, say: Callable[[Found], None], choose: Choose | None = None
) -> Found | None:
    """Try `compiles` settings at most, the default among them; None if the default is not compiled.

    `say` is called after every round. `choose` gives the next settings, after the default; without it they are
    those that this file describes. The same for every number of jobs.
    """
    runner.run([DEFAULT])
    made = runner.outcomes[DEFAULT].written
    if made is None:
        return None
    room = runner.target.limit_bytes or made.cache_bytes
    flags = runner.vela.flags_for(runner.target)
    pick = choose or (lambda outcomes: _next(Found(outcomes, room), room, flags))
    while (left := compiles - len(runner.outcomes)) > 0:
        proposed = [setting for setting in pick(runner.outcomes) if setting not in runner.outcomes]
        if not proposed:
            break
        runner.run(proposed[: min(left, ROUND)])
        say(Found(runner.outcomes, room))
    return Found(runner.outcomes, room)


def _next(found: Found, room: int, flags: Sequence[str]) -> list[Setting]:
    """What to try next, the most promising first."""
    reach = min(room, found.default.sram_bytes)
    grid = [Setting(_grain(share * reach)) for share in GRID]
    alone = [Setting(0, (flag,)) for flag in flags]
    first = [setting for setting in (*grid[:3], *alone, *grid[3:]) if setting not in found.outcomes]
    if first:
        return first
    bases = _distinct(found)[:BASES]
    each = [_neighbours(found, base, reach, flags) for base in bases]
    # The best one's neighbours come twice as often as those of the others.
    best = iter(each[0]) if each else iter(())
    rows = zip_longest(best, best, *each[1:])
    new = (setting for setting in chain.from_iterable(rows) if setting and setting not in found.outcomes)
    return list(islice(dict.fromkeys(new), ROUND))


def _distinct(found: Found) -> list[Setting]:
    """The best settings, one for each program."""
    first: dict[str, Setting] = {}
    for setting in found.ranked():
        made = found.outcomes[setting].written
        assert made is not None
        first.setdefault(made.digest, setting)
    return list(first.values())


def _neighbours(found: Found, base: Setting, reach: int, flags: Sequence[str]) -> Iterator[Setting]:
    """Settings near one: switches turned, intervals beside its limit halved, limits of other good ones, by turns."""
    parts = (
        _halves(found, base, reach),
        _turned(found, base, reach, flags),
        (Setting(other.limit_bytes, base.flags) for other in _distinct(found)[: 2 * BASES]),
    )
    return (setting for setting in chain.from_iterable(zip_longest(*parts)) if setting is not None)


def _turned(found: Found, base: Setting, reach: int, flags: Sequence[str]) -> Iterator[Setting]:
    """The base with one switch on or off, the switch first with which the best was found.

    The other core knows none of the `--disable-` switches.
    """

    def best_with(flag: str) -> int:
        return next((place for place, setting in enumerate(ranked) if flag in setting.flags), len(ranked))

    ranked, at = found.ranked(), _limit(base, reach)
    for flag in sorted(flags, key=best_with):
        turned = tuple(sorted(set(base.flags) ^ {flag}))
        core = any(word in OTHER_CORES for word in turned)
        tried = (_limit(other, reach) for other in found.outcomes if other.flags == turned)
        near = any(abs(limit - at) <= NEAR * reach for limit in tried)
        if not (near or (core and any(word.startswith("--disable-") for word in turned))):
            yield Setting(base.limit_bytes, turned)


def _halves(found: Found, base: Setting, reach: int) -> Iterator[Setting]:
    """Middles of the intervals, below the base and above, in which its program becomes another with its switches."""
    alike = {
        _limit(setting, reach): outcome.written and outcome.written.digest
        for setting, outcome in found.outcomes.items()
        if setting.flags == base.flags
    }
    at = _limit(base, reach)
    below, above = (sorted(limit for limit in alike if (limit < at) == low) for low in (True, False))
    for limits, end in ((below[::-1], _grain(LOWEST * reach)), (above, reach)):
        inside, outside = at, end
        for limit in limits:
            if alike[limit] != alike[at]:
                outside = limit
                break
            inside = limit
        if abs(outside - inside) > FINEST * reach:
            yield Setting(_grain((outside + inside) / 2), base.flags)


def _limit(setting: Setting, reach: int) -> int:
    return setting.limit_bytes or reach  # what the default leaves free changes little


def _grain(limit_bytes: float) -> int:
    return max(GRAIN, int(limit_bytes) // GRAIN * GRAIN)
