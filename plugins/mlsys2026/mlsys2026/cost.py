"""What a step takes, in float64, for the two orders in which tiles share most: row after row, column after column,
every other one backwards.

Moments of equal loads and sums are counted, not walked: a tile is one of twelve kinds (in the last row or not, in the
last column or not, after the first tile, a row or a column changed), and its moments fall into few stretches.
The judge (`judge.py`) is the plain twin of these kernels; the readings R1 to R10 of the rules stand in README.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from mlsys2026.plan import DEPTH, LAST, SUMMED, TILE, WHOLE

ALONG_COLUMNS, LAST_LINE_FIRST, FROM_THE_END = 1, 2, 4
"""Orders of tiles are sums of these: lines are columns, the last line comes first, the first line runs backwards."""
MOST_DEPTHS = 64
"""Depths of slices that are tried for a tile, evenly spread; twice as many at most."""
ENDLESS = 2**62
"""Elements of a memory in which everything fits."""
CLOSE = 1.02
"""Orders are turned round if the best of two is no further than this from the best granularity."""


@kernel
def _normal(
    table: Any, rows_at: int, depth_at: int, k: int, one_row: bool, one_column: bool, moments: int
) -> Any:
    """A copy of `loads` or `runs` in which a range that is the whole of it is moved by nothing; equal ones merged (R6).

    What one moment alone needs is the same however it is needed, so that then ops of all kinds merge.
    """
    out = table.copy()
    count = 0
    runs = table.shape[1] == 10
    for i in range(len(table)):
        for j in range(table.shape[1]):
            out[count, j] = table[i, j]
        row, column = out[count, rows_at + 2], out[count, rows_at + 3]
        if (row == TILE and one_row) or (row == DEPTH and out[count, rows_at] <= k):
            out[count, rows_at + 2] = WHOLE
        if (column == TILE and one_column) or (column == DEPTH and out[count, rows_at + 1] <= k):
            out[count, rows_at + 3] = WHOLE
        merged = False
        for j in range(count):
            same = out[j, 0] == out[count, 0]
            for c in (rows_at + 2, rows_at + 3):
                same = same and out[j, c] == out[count, c]
            if runs and moments > 1:
                same = same and out[j, 8] == out[count, 8]
            if same:
                out[j, depth_at] = max(out[j, depth_at], out[count, depth_at])
                if not runs:
                    out[j, 6] = max(out[j, 6], out[count, 6])
                merged = True
                break
        if not merged:
            count += 1
    return out[:count]


@kernel
def _length(by: int, whole: int, tile: int, k: int, moment: int) -> int:
    """How long a range is at a moment."""
    if by == WHOLE:
        return whole
    if by == TILE:
        return tile
    return max(0, min(k, whole - moment * k))


@kernel
def _needed(depth: int, last: int, k: int, moment: int, moments: int) -> bool:
    """True if a moment needs a slice."""
    return moment * k < depth or (last == 1 and moment == moments - 1) or (moments == 1)


@kernel
def _computed(runs: Any, rows: int, columns: int, k: int, moment: int, moments: int, native: Any) -> float:
    """Time of all ops at a moment (R2)."""
    total = 0.0
    for i in range(len(runs)):
        when = runs[i, 8]
        if moments > 1 and (moment < moments - 1 if when == LAST else moment * k >= runs[i, 6]):
            continue
        high = _length(runs[i, 4], runs[i, 2], rows, k, moment)
        wide = _length(runs[i, 5], runs[i, 3], columns, k, moment)
        matmul = runs[i, 1] == 1
        down = high / native[1] if matmul and runs[i, 4] == DEPTH else float(-(-high // native[1]))
        across = wide / native[0] if matmul and runs[i, 5] == DEPTH else float(-(-wide // native[0]))
        deep = 1.0
        if matmul:
            summed = when == SUMMED and moments > 1
            deep = (min(k, runs[i, 7] - moment * k) if summed else runs[i, 7]) / native[0]
        total += runs[i, 9] * down * across * deep
    return total


@kernel
def _occupied(loads: Any, tensor: int, rows: int, columns: int, k: int, moment: int, moments: int) -> int:
    """Elements of the slices that a moment needs, without those of the resident tensor."""
    held = 0
    for i in range(len(loads)):
        if loads[i, 0] != tensor and _needed(loads[i, 5], loads[i, 6], k, moment, moments):
            high = _length(loads[i, 3], loads[i, 1], rows, k, moment)
            held += high * _length(loads[i, 4], loads[i, 2], columns, k, moment)
    return held


@kernel
def _loaded(
    loads: Any, tensor: int, rows: int, columns: int, k: int, moment: int, moments: int, change: int
) -> int:
    """Elements that a moment loads. At moment 0 `change` says what came before: 0 nothing, 1 another row, 2 another
    column (R7)."""
    total = 0
    for i in range(len(loads)):
        depth, last = loads[i, 5], loads[i, 6]
        if loads[i, 0] == tensor or not _needed(depth, last, k, moment, moments):
            continue
        down, across = loads[i, 3], loads[i, 4]
        if down != DEPTH and across != DEPTH:
            if moment > 0:
                if _needed(depth, last, k, moment - 1, moments):
                    continue
            elif (
                change > 0
                and _needed(depth, last, k, moments - 1, moments)
                and not (down == TILE and change == 1)
                and not (across == TILE and change == 2)
            ):
                continue
        high = _length(down, loads[i, 1], rows, k, moment)
        total += high * _length(across, loads[i, 2], columns, k, moment)
    return total


@kernel
def _tile(
    loads: Any, runs: Any, tensor: int, rows: int, columns: int, k: int, stops: Any, change: int, stored: int,
    chip: Any,
) -> float:  # fmt: skip
    """Latency of a tile (R10). `stops` are the moments at which stretches of equal moments end, ascending."""
    moments = stops[len(stops) - 1]
    total = 0.0
    start = 0
    for at in range(len(stops)):
        count = stops[at] - start
        out = stored if stops[at] == moments else 0
        moved = _loaded(loads, tensor, rows, columns, k, start, moments, change) + out
        total += count * max(_computed(runs, rows, columns, k, start, moments, chip[2:4]), moved / chip[1])
        start = stops[at]
    return total


@kernel
def _stops(depths: Any, k: int, moments: int) -> Any:
    """Where stretches of equal moments end: after the first, before the last, where a sum ends or its rest begins."""
    found = np.zeros(4 * len(depths) + 3, np.int64)
    count = 0
    for each in (1, moments - 1, moments):
        found[count] = each
        count += 1
    for depth in depths:
        for each in (depth // k, -(-depth // k), depth // k + 1, -(-depth // k) + 1):
            found[count] = min(each, moments)
            count += 1
    found = np.unique(found)
    return found[found > 0]


@kernel
def _prepared(made: Any, w: int, h: int, k: int, tensor: int, retain: bool) -> Any:
    """What moments load and run with a granularity, where stretches of equal ones end, and the most they hold."""
    one_row, one_column = h >= made.shape[1], w >= made.shape[0]
    moments = 1
    for depth in made.depths:
        moments = max(moments, -(-depth // k))
    loads = _normal(made.loads, 1, 5, k, one_row, one_column, moments)
    runs = _normal(made.runs, 2, 6, k, one_row, one_column, moments)
    stops = _stops(made.depths, k, moments)
    return loads, runs, stops, _peak(loads, made, w, h, k, stops, tensor, retain, True)


@kernel
def latency(made: Any, grain: Any, order: int, tensor: int, retain: bool) -> float:
    """Latency of a step, or infinity if a moment needs more than fast memory holds.

    `grain` is w, h, k, int64 [3]; `order` a sum of ALONG_COLUMNS, LAST_LINE_FIRST and FROM_THE_END; `tensor` the
    resident tensor, -1 if there is none; `retain` is True if the output stays in fast memory.
    """
    w, h, k = min(grain[0], made.shape[0]), min(grain[1], made.shape[1]), grain[2]
    loads, runs, stops, peak = _prepared(made, w, h, k, tensor, retain)
    if peak > made.chip[0]:
        return np.inf
    return _all_tiles(loads, runs, made, w, h, k, stops, order, tensor, retain)


@kernel
def _peak(
    loads: Any, made: Any, w: int, h: int, k: int, stops: Any, tensor: int, retain: bool, last: bool
) -> int:
    """The most elements that fast memory holds: no tile needs more than the first (R5, R9).

    Without `last` the last moment is left out, unless it is the only one.
    """
    moments = stops[len(stops) - 1]
    base = 0 if tensor < 0 else made.sizes[tensor]
    if retain:
        base += made.shape[0] * made.shape[1]
    if made.shape[2] == 0 and moments > 1:
        base += made.shape[3] * w * h
    most, start = 0, 0
    for at in range(len(stops) if last or moments == 1 else len(stops) - 1):
        held = _occupied(loads, tensor, h, w, k, start, moments)
        if not retain and (made.shape[2] == 1 or stops[at] == moments):
            held += w * h
        most = max(most, held)
        start = stops[at]
    return base + most


@kernel
def _all_tiles(
    loads: Any, runs: Any, made: Any, w: int, h: int, k: int, stops: Any, order: int, tensor: int, retain: bool
) -> float:  # fmt: skip
    """The sum over all tiles, by kind."""
    shape, chip = made.shape, made.chip
    lines, along = -(-shape[1] // h), -(-shape[0] // w)
    by_columns = order & ALONG_COLUMNS
    if by_columns:
        lines, along = along, lines
    counts = np.zeros((2, 2, 3), np.int64)  # in the last line, in the last place along it, what changed
    for at in range(lines):
        line = lines - 1 - at if order & LAST_LINE_FIRST else at
        edge = 1 if line == lines - 1 else 0
        backwards = (at % 2 == 1) != (order & FROM_THE_END > 0)
        enters = along - 1 if backwards else 0
        change = 0 if at == 0 else (2 if by_columns else 1)
        counts[edge, 1 if enters == along - 1 else 0, change] += 1
        if along > 1:
            moved = 1 if by_columns else 2
            ends = 0 if backwards else 1
            counts[edge, 1, moved] += ends
            counts[edge, 0, moved] += along - 1 - ends
    total = 0.0
    last_high, last_wide = shape[1] - (-(-shape[1] // h) - 1) * h, shape[0] - (-(-shape[0] // w) - 1) * w
    for line_edge in range(2):
        for along_edge in range(2):
            bottom, right = (along_edge, line_edge) if by_columns else (line_edge, along_edge)
            high = last_high if bottom else h
            wide = last_wide if right else w
            for change in range(3):
                if counts[line_edge, along_edge, change] == 0:
                    continue
                stored = 0 if retain else high * wide
                took = _tile(loads, runs, tensor, high, wide, k, stops, change, stored, chip)
                total += counts[line_edge, along_edge, change] * took
    return total


@kernel
def _deepest(made: Any, w: int, h: int, tensor: int, retain: bool) -> int:
    """The largest depth of a slice, below the largest sum, with which all moments but the last fit; 0 if none does.

    Between two depths of sums, what the first moment holds grows by the same with each step of depth, and no later one
    but the last, where a rest is left, holds more.
    """
    room, first = made.chip[0], np.array([1, 2])
    for at in range(len(made.depths) - 1, -1, -1):
        low, high = made.depths[at - 1] if at > 0 else 1, made.depths[at] - 1
        if low > high:
            continue
        table = _normal(made.loads, 1, 5, low, h >= made.shape[1], w >= made.shape[0], 2)
        least = _peak(table, made, w, h, low, first, tensor, retain, False)
        most = _peak(table, made, w, h, high, first, tensor, retain, False)
        if least <= room:
            return high if most <= room else low + (room - least) * (high - low) // (most - least)
    return 0


@kernel
def _any_order(made: Any, room: int, w: int, h: int, k: int, tensor: int, retain: bool) -> float:
    """At most the latency with any order of the tiles; infinite if they do not fit into so much `room`.

    After the first tile each one comes after a change of row, of column, or of both, which loads no less than either.
    All rows but one are entered by a change of row, all columns but one by a change of column.
    """
    width, height, chip = made.shape[0], made.shape[1], made.chip
    across, down = -(-width // w), -(-height // h)
    loads, runs, stops, peak = _prepared(made, w, h, k, tensor, retain)
    if peak > room:
        return np.inf
    total, begins, by_row, by_column = 0.0, np.inf, np.inf, np.inf
    for bottom in range(2 if down > 1 else 1):
        high = h if bottom == 0 and down > 1 else height - (down - 1) * h
        rows = down - 1 if bottom == 0 and down > 1 else 1
        for right in range(2 if across > 1 else 1):
            wide = w if right == 0 and across > 1 else width - (across - 1) * w
            columns = across - 1 if right == 0 and across > 1 else 1
            stored = 0 if retain else high * wide
            first = _tile(loads, runs, tensor, high, wide, k, stops, 0, stored, chip)
            row = _tile(loads, runs, tensor, high, wide, k, stops, 1, stored, chip) if down > 1 else first
            column = (
                _tile(loads, runs, tensor, high, wide, k, stops, 2, stored, chip) if across > 1 else first
            )
            least = min(row, column)
            total += rows * columns * least
            begins = min(begins, first - least)
            by_row, by_column = min(by_row, row - least), min(by_column, column - least)
    if across * down > 1:
        total += begins + (down - 1) * by_row + (across - 1) * by_column
    return total


@kernel
def best_grain(made: Any, wide: Any, high: Any, tensor: int, retain: bool, floor: float) -> Any:
    """The best latency, w, h, k and order, float64 [5], over the tiles of int64 `wide` x `high`; infinite if none fits.

    Moments that are joined never take longer together, since times add up, and the larger of two sums is at most the
    sum of the larger parts. So tiles are passed over that are no better with all their moments joined, and of the
    depths only the whole sum and those down to a third of the deepest that may fit are tried. No latency is below
    `floor`.
    """
    best = np.array([np.inf, 1.0, 1.0, 1.0, 0.0])
    grain, depths, chip = np.zeros(3, np.int64), made.depths, made.chip
    whole = depths[len(depths) - 1] if len(depths) else 1
    for w in wide:
        for h in high:
            if not retain and w * h > chip[0]:
                continue
            if _any_order(made, ENDLESS, w, h, whole, tensor, retain) >= best[0]:
                continue
            grain[0], grain[1], grain[2] = w, h, whole
            deepest = _deepest(made, w, h, tensor, retain)
            _try_depth(made, grain, tensor, retain, best)
            step = 1 if chip[4] else max(1, deepest // MOST_DEPTHS)
            for k in range(deepest, 0 if chip[4] else deepest // 3, -step):
                grain[2] = k
                _try_depth(made, grain, tensor, retain, best)
            if deepest > chip[2]:
                grain[2] = deepest // chip[2] * chip[2]
                _try_depth(made, grain, tensor, retain, best)
            if best[0] <= floor:
                return best
    return best


@kernel
def _try_depth(made: Any, grain: Any, tensor: int, retain: bool, best: Any) -> None:
    """Put a granularity with its best order into `best` if it is better, and divides what it has to."""
    for depth in made.depths:
        if made.chip[4] and depth % grain[2]:
            return
    uneven = (
        made.shape[0] % grain[0] or made.shape[1] % grain[1]
    )  # else turning the order round changes nothing
    for order in range(8 if uneven else 2):
        took = latency(made, grain, order, tensor, retain)
        if took < best[0]:
            best[0], best[1], best[2], best[3], best[4] = took, grain[0], grain[1], grain[2], order
        if not np.isfinite(took) or (order >= 1 and took > best[0] * CLOSE):
            break


def choices(length: int, native: int, divide: bool) -> NDArray[np.int64]:
    """Lengths of tiles that are tried, largest first: even parts of the whole, multiples of the native one and of an
    eighth of it up to two, its halves; those that divide the length, if they have to."""
    if divide:
        return np.array([part for part in range(length, 0, -1) if length % part == 0], np.int64)
    parts = [-(-length // count) for count in range(1, 25)]
    multiples = [
        native * m for m in (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64) if native * m < length
    ]
    halves = [native >> i for i in range(1, native.bit_length()) if native >> i < length]
    eighth = max(1, native // 8)
    fine = range(eighth, min(length, 2 * native), eighth)
    return np.array(sorted({*parts, *multiples, *halves, *fine}, reverse=True), np.int64)


@kernel
def least_latency(made: Any, tensor: int, retain: bool, at: Any, work: int) -> None:
    """Bring down `at`, float64 [3], to at most the latency with any tiles, depth and order, or its first number.

    The other two are the width and height that come next; width 0: it is done. After so much `work` it returns, to be
    called again. Each tile is looked at with all moments joined first. Where that is below the least so far, every
    depth counts that fits, unless a multiple of it fits: moments that are joined take no longer. The proof of that
    needs sums that are multiples of the native tile.
    """
    depths, room = made.depths, made.chip[0]
    whole = depths[len(depths) - 1] if len(depths) else 1
    done = 0
    while at[1] >= 1 and done < work:
        w, h = int(at[1]), int(at[2])
        done += 1
        idle = made.chip[4] == 1 and (made.shape[0] % w > 0 or made.shape[1] % h > 0)
        idle = idle or (not retain and w * h > room)
        if not idle and _any_order(made, ENDLESS, w, h, whole, tensor, retain) < at[0]:
            deepest = _deepest(made, w, h, tensor, retain)
            least = _any_order(made, room, w, h, whole, tensor, retain)
            fits = np.zeros(deepest + 1, np.bool_)
            for k in range(0 if np.isfinite(least) else deepest, 0, -1):
                if not fits[2 * k :: k].any():
                    took = _any_order(made, room, w, h, k, tensor, retain)
                    least, fits[k] = min(least, took), np.isfinite(took)
                    done += 1
            at[0] = min(at[0], least)
            done += 5
        at[2] -= 1
        if at[2] < 1:
            at[1] -= 1
            at[2] = made.shape[1]
