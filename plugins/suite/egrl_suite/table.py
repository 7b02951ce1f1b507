"""The leaderboard: a table in Markdown, and a figure of the share of headroom against measurements."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from egrl_suite.files import complete, read
from egrl_suite.library import SuiteError, version
from egrl_suite.scores import Score, score
from egrl_suite.tasks import track_named

Board = dict[str, dict[str, Score]]
"""Method -> mark -> score."""


def boards(paths: Sequence[Path], against: str = "") -> dict[tuple[str, str, bool], Board]:
    """The scores of all files, by track, split and whether it is the quick slice alone; beside those of a method.

    Raises SuiteError if two files have the same method in the same track, or one is of another version.
    """
    rows: dict[tuple[str, str, bool], dict[str, list[dict[str, Any]]]] = {}
    for path in paths:
        document = read(path)
        if not document["rows"]:
            raise SuiteError(f"{path}: rows: expected a list with one search at least, found []")
        board = rows.setdefault((document["track"], document["split"], document["quick"]), {})
        new: dict[str, list[dict[str, Any]]] = {}
        for row in complete(document):
            new.setdefault(row["method"], []).append(row)
        for method in new:
            if method in board:
                raise SuiteError(f"{path}: {method} stands in another file of this track, too")
        board.update(new)
    found: dict[tuple[str, str, bool], Board] = {}
    for key, board in rows.items():
        for method, own in board.items():
            beside = board.get(against) if method != against else None
            scores = {str(mark): score(own, str(mark), beside) for mark in track_named(key[0]).marks}
            mine = {mark: each for mark, each in scores.items() if each is not None}
            found.setdefault(key, {})[method] = mine
    return found


def markdown(found: dict[tuple[str, str, bool], Board], against: str = "") -> str:
    """A table for each track: share ± its 95 % interval, the best at the last mark first; and less that of a method."""
    parts = [f"Suite {version()['version']}, `{version()['digest']}`."]
    for (track, split, quick), board in sorted(found.items()):
        marks = [
            str(mark) for mark in track_named(track).marks if any(str(mark) in own for own in board.values())
        ]
        some = next(iter(next(iter(board.values())).values()))
        of = f"{split}{', quick' if quick else ''}"
        lines = [
            f"**{track}** ({of}): {some.instances} instances, {some.families} families",
            "",
            f"| method | {' | '.join(_title(mark, against) for mark in marks)} | worst | failed | seeds |",
            "|---|" + "---:|" * (len(marks) * (2 if against else 1) + 3),
        ]
        for method in sorted(board, key=lambda name: _rank(board[name], marks)):
            own = board[method]
            last = own[max(own, key=int)]
            cells = [_cell(own.get(mark), against) for mark in marks]
            worst = min(each.worst for each in own.values())
            lines.append(
                f"| `{method}` | {' | '.join(cells)} | {worst:.3f} | {last.failed or ''} | {last.seeds} |"
            )
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _title(mark: str, against: str) -> str:
    title = "share" if mark == "1" else f"{int(mark):,}"
    return f"{title} | less `{against}`" if against else title


def _rank(own: dict[str, Score], marks: Sequence[str]) -> tuple[float, ...]:
    return tuple(-own[mark].share if mark in own else np.inf for mark in reversed(marks))


def _cell(found: Score | None, against: str) -> str:
    cell = "" if found is None else f"{found.share:.2f}±{found.high - found.share:.2f}"
    if not against:
        return cell
    less = None if found is None else found.less
    return f"{cell} | {'' if less is None else f'{less[0]:+.2f}±{less[1]:.2f}'}"


STYLES = ("-", "--", "-.", ":")
COLUMNS = 2


def figure(found: dict[tuple[str, str, bool], Board], path: Path) -> None:
    """Draw the tracks with several marks: mean share and its band over families. Needs matplotlib.

    Tracks with one method are left out where there are others.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise SuiteError("--figure: expected matplotlib, found none: pip install matplotlib") from None
    several = {key: board for key, board in found.items() if len(track_named(key[0]).marks) > 1}
    lines = {k: board for k, board in several.items() if any(len(own) > 1 for own in board.values())}
    drawn = {k: board for k, board in lines.items() if len(board) > 1} or lines or several
    if not drawn:
        raise SuiteError("--figure: expected results of a track with several marks, found none")
    columns = min(len(drawn), COLUMNS)
    rows = -(-len(drawn) // columns)
    canvas = Figure(figsize=(5.5 * columns, 5.4 * rows), layout="constrained")
    grid = canvas.subplots(rows, columns, squeeze=False).ravel()
    for axes in grid[len(drawn) :]:
        axes.remove()
    for axes, ((track, split, _), board) in zip(grid, sorted(drawn.items()), strict=False):
        scored = sorted({int(mark) for own in board.values() for mark in own})
        marked = [str(mark) for mark in scored]
        for number, method in enumerate(sorted(board, key=lambda name: _rank(board[name], marked))):
            own = board[method]
            marks = sorted(own, key=int)
            shares, colour = [own[mark].share for mark in marks], f"C{number % 10}"
            xs, style = [int(mark) for mark in marks], STYLES[number % len(STYLES)]
            axes.plot(xs, shares, style, marker=".", color=colour, label=method)
            axes.fill_between(
                xs, [own[m].low for m in marks], [own[m].high for m in marks], color=colour, alpha=0.1, lw=0
            )
        axes.set(
            xscale="log",
            xlabel="measurements",
            ylabel="share of the headroom",
            title=f"{track}, {split}",
            ylim=(-0.1, 1.1),
        )
        axes.set_xticks(scored, [f"{mark:,}" for mark in scored])
        axes.minorticks_off()
        axes.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)
    try:
        canvas.savefig(path, dpi=110)
    except ValueError as error:
        raise SuiteError(f"--figure {path}: {error}") from None
