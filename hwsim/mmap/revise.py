"""Whole games revised by simulated annealing: some proposed actions change, and the game is played again from there.

Source: Kirkpatrick, Gelatt and Vecchi, "Optimization by simulated annealing" (Science, 1983). A state is a
proposal: an action per buffer, as `hwsim.mmap.rules.moves.play_proposal` plays it. If an action is illegal, another is
played instead, and the proposal stays as it is.

Changes: one buffer, a run of neighbours, buffers of a kind, or the uses of a tensor get other actions. A kind is a role
(outputs, first inputs or later inputs) and a range of one trait: size, distance from the use before, or what a buffer
saves for its room. All of the kind are changed, or some from one buffer on.

Replay: what was played before the first change is not worked out again. A game begins at a *mark*, a stored state of
the kept game, and takes the kept game's moves up to the change. From there it is played by its proposal, and no further
than needed:

- A game that is `PATIENCE` buffers past a change is expected to end as far above or below the kept one as it is then,
  and is given up if that is not enough.
- A game that is past its last change and was played as the kept one throughout would end as it did. Its proposal is
  kept, and nothing more is played.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.keys import bits, uniform
from hwsim.mmap.rules.moves import apply_move, find_legal, is_over, leave_dead_end, play, restart
from hwsim.mmap.rules.state import (
    COPY,
    NO_COPY,
    GameState,
    Words,
    copy_state,
    new_states,
    new_words,
    state_of,
)
from hwsim.mmap.tables import Tables, savings_s
from hwsim.problem import Floats
from hwsim.stepwise import Revised

ACTIONS = 3
ONE, RUN, KIND = 0.3, 0.3, 0.2
"""Shares of changes to one buffer, to a run, to a kind; the rest are of tensors."""
LONGEST = 1000.0
"""Buffers in a run at most."""

_PLACE, _SHARE, _ACTION, _FIRST, _END, _OTHER = (np.uint64(number) for number in range(6))
_RUN, _TRAIT = np.uint64(6), np.uint64(7)
"""Numbers of the draws of a change. In a run without a common action all from `_RUN` on are actions, one per buffer."""


class Uses(NamedTuple):
    """Decisions, and those of each tensor.

    Attributes:
        decision: int64 [D], buffers that have one; tensor: int64 [D], whose, counted among tensors with decisions.
        begins: int64 [U + 1], of each tensor's run in `use`; use: int64 [D], buffers tensor by tensor.
        role: int64 [D], 0 an output, 1 a tensor's first input, 2 a later one.
        traits: int64 [3, D]: the buffer's room; its distance in steps, from the use before or, if there is none and
            of outputs, to the last one; its rank by what it saves alone for its room.
    """

    decision: NDArray[np.int64]
    tensor: NDArray[np.int64]
    begins: NDArray[np.int64]
    use: NDArray[np.int64]
    role: NDArray[np.int64]
    traits: NDArray[np.int64]


def uses_of(tables: Tables) -> Uses:
    """The decisions of a program."""
    decision = np.flatnonzero(tables.buffer["granules"] > 0)
    row = tables.buffer[decision]
    _, tensor = np.unique(row["tensor"], return_inverse=True)
    order = np.argsort(tensor, kind="stable")
    begins = np.searchsorted(tensor[order], np.arange(tensor.max(initial=-1) + 2))
    _, first = np.unique(np.where(row["is_output"], -1, row["tensor"]), return_index=True)
    role = np.full(len(decision), 2)
    role[first] = 1
    role[row["is_output"]] = 0
    same = tensor[order[1:]] == tensor[order[:-1]]
    distance = row["last"] - row["step"]
    distance[order[1:][same]] = (row["step"][order[1:]] - row["step"][order[:-1]])[same]
    distance = np.where(row["is_output"], row["last"] - row["step"], distance)
    saved = savings_s(tables)[decision] / row["granules"]
    _, rank = np.unique(saved.astype(np.float32), return_inverse=True)
    traits = np.stack([row["granules"], distance, rank]).astype(np.int64)
    tensor, begins, use, role = (part.astype(np.int64) for part in (tensor, begins, decision[order], role))
    return Uses(decision, tensor, begins, use, role, traits)


@kernel
def change(uses: Uses, proposal: NDArray[np.int16], key: np.uint64) -> int:
    """Make one change in place; the first buffer that it may have changed."""
    place = int(uniform(key, _PLACE) * len(uses.decision))
    # One draw selects the sort of change; its shares are stacked from 0 to 1.
    share, action = uniform(key, _SHARE), int(uniform(key, _ACTION) * ACTIONS)
    if share < ONE:
        proposal[uses.decision[place]] = action
        return int(uses.decision[place])
    if share < ONE + RUN:
        return _change_run(uses, proposal, key, place, action)
    if share < ONE + RUN + KIND:
        return _change_kind(uses, proposal, key, place, action)
    return _change_tensor(uses, proposal, key, place, action)


@kernel
def _draw_length(key: np.uint64) -> int:
    """How many buffers to change: half of the lengths are 1, one in n is n or more."""
    return int(min(LONGEST, 1.0 / (1.0 - uniform(key, _END))))


@kernel
def _change_run(uses: Uses, proposal: NDArray[np.int16], key: np.uint64, place: int, action: int) -> int:
    """Change neighbours from decision `place` on: all to `action`, or each to an action of its own."""
    # Draws of actions come after all others, so that a run of any length has draws of its own.
    alike = uniform(key, _FIRST) < 0.5
    for k in range(place, min(place + _draw_length(key), len(uses.decision))):
        own = action if alike else int(uniform(key, _RUN + np.uint64(k - place)) * ACTIONS)
        proposal[uses.decision[k]] = own
    return int(uses.decision[place])


@kernel
def _change_kind(uses: Uses, proposal: NDArray[np.int16], key: np.uint64, place: int, action: int) -> int:
    """Change those of the role of decision `place` that have its trait, or one up to that of another decision."""
    number = len(uses.decision)
    trait = uses.traits[int(uniform(key, _TRAIT) * len(uses.traits))]
    role, low, high = uses.role[place], trait[place], trait[place]
    if uniform(key, _RUN) < 0.5:
        other = trait[int(uniform(key, _OTHER) * number)]
        low, high = min(low, other), max(high, other)
    # Some from this decision on, or all of the program. Either way this decision itself is one of them.
    k, left = 0, number
    if uniform(key, _FIRST) < 0.5:
        k, left = place, _draw_length(key)
    first = -1
    while k < number and left > 0:
        if uses.role[k] == role and low <= trait[k] <= high:
            proposal[uses.decision[k]] = action
            left -= 1
            if first < 0:
                first = uses.decision[k]
        k += 1
    return int(first)


@kernel
def _change_tensor(uses: Uses, proposal: NDArray[np.int16], key: np.uint64, place: int, action: int) -> int:
    """Change the uses of the tensor of decision `place`: all, or a run of them."""
    begins, ends = uses.begins[uses.tensor[place]], uses.begins[uses.tensor[place] + 1]
    if uniform(key, _RUN) < 0.5:
        begins += int(uniform(key, _FIRST) * (ends - begins))
        ends = begins + 1 + int(uniform(key, _END) * (ends - begins))
    for k in range(begins, ends):
        proposal[uses.use[k]] = action
    # A NoCopy needs the tensor in fast memory already: the first use may bring it there.
    if action == NO_COPY and uniform(key, _OTHER) < 0.5:
        proposal[uses.use[begins]] = COPY
    return int(uses.use[begins])


PATIENCE = 64
"""Buffers after the latest change, others to come or not, from which on a game is judged by what it has returned."""
MARKS, APART = 32, 256
"""Marks of the kept game at most; buffers between two of them at least."""
ENDED, GIVEN_UP, SAME = range(3)
"""How a game is left: played to its end; expected to return too little; certain to end as the kept one."""


class Game(NamedTuple):
    """A game, and how its return grew.

    Attributes:
        state: its state.
        so_far_s: float64 [N], the return after each buffer, seconds.
    """

    state: GameState
    so_far_s: Floats


@kernel
def _is_alike(one: GameState, other: GameState, b: int) -> bool:
    """Whether buffer b was played the same way in two games."""
    x, y = one.buffer[b], other.buffer[b]
    where = x.action == y.action and x.offset == y.offset
    when = x.first == y.first and x.last == y.last
    return where and when and x.copy_first == y.copy_first and x.copy_last == y.copy_last


@kernel
def play_from(
    tables: Tables,
    trial: Game,
    proposal: NDArray[np.int16],
    kept: Game,
    kept_proposal: NDArray[np.int16],
    keep: int,
    exact: int,
    least_s: float,
    words: Words,
) -> tuple[int, int]:
    """Play a game on by its proposal from the decision on buffer `keep` on.

    Args:
        trial: the game; `so_far_s` is written where this plays.
        proposal, kept_proposal: int16 [N], of this game and of the kept one, the same before `keep`.
        kept: the game that this one is to replace.
        exact: the buffer from which on the kept game's moves follow from its proposal and the moves before; more than
            N: they do not, since a dead end forced some.
        least_s: the return from which on this game will replace the kept one.

    Returns:
        `ENDED`, `GIVEN_UP` or `SAME`; buffers played.
    """
    state = trial.state
    last_change = len(proposal) - 1
    while last_change > keep and proposal[last_change] == kept_proposal[last_change]:
        last_change -= 1
    # `same`: all moves so far are those of the kept game, and those after the last change would be, too.
    same, may_give_up = last_change + 1 >= exact, not kept.state.game[0].lost > 0
    played, latest_change = 0, keep
    while not is_over(tables, state):
        b = state.game[0].cursor
        action, outcome = find_legal(tables, state, proposal[b], words)
        if not outcome.legal:
            # Back to an earlier buffer, maybe before `keep`, with a group forced that the kept game may have placed.
            leave_dead_end(tables, state)
            same = False
            continue
        play(tables, state, action, outcome)
        played += 1
        trial.so_far_s[b] = state.game[0].total_s
        same = same and _is_alike(state, kept.state, b)
        if same and b >= last_change:
            return SAME, played
        if proposal[b] != kept_proposal[b]:
            latest_change = b
        # A lost game returns 0 whatever it returned on the way, so that nothing can be compared with it.
        if b >= latest_change + PATIENCE and may_give_up:
            expected_s = kept.state.game[0].total_s + state.game[0].total_s - kept.so_far_s[b]
            if expected_s < least_s:
                return GIVEN_UP, played
    return ENDED, played


def marks_for(tables: Tables) -> GameState:
    """Room for the marks of a game."""
    return new_states(tables, min(MARKS, len(tables.buffer) // APART))


@kernel
def _spacing(marks: GameState, state: GameState) -> int:
    """Buffers from one mark to the next."""
    return -(-len(state.buffer) // (len(marks.game) + 1))


@kernel
def go_to(tables: Tables, state: GameState, kept: GameState, marks: GameState, keep: int) -> None:
    """Put `state` to where the kept game decides on buffer `keep`, from the last mark before it."""
    # Mark m is the state at buffer (m + 1) * spacing.
    passed = min(keep // _spacing(marks, state), len(marks.game))
    if passed == 0:
        restart(tables, state)
    else:
        copy_state(state_of(marks, passed - 1), state)
    _follow(tables, state, kept, keep)


@kernel
def _follow(tables: Tables, state: GameState, kept: GameState, keep: int) -> None:
    """Play a kept game's moves on, up to `keep`; they are legal, so that no outcome is worked out."""
    while state.game[0].cursor < keep:
        # `apply_move` reads the row of the buffer, so that it must be filled first.
        row, given = state.buffer[state.game[0].cursor], kept.buffer[state.game[0].cursor]
        row.action = given.action
        row.offset = given.offset
        row.first = given.first
        row.last = given.last
        row.copy_first = given.copy_first
        row.copy_last = given.copy_last
        apply_move(tables, state)


@kernel
def write_marks(tables: Tables, scratch: GameState, kept: GameState, marks: GameState, keep: int) -> None:
    """Write down the states of a kept game at the marks beyond `keep`; those before are there already."""
    go_to(tables, scratch, kept, marks, keep)
    spacing = _spacing(marks, scratch)
    for m in range(keep // spacing, len(marks.game)):
        # A lost game has no states past its end.
        if (m + 1) * spacing > kept.game[0].cursor:
            break
        _follow(tables, scratch, kept, (m + 1) * spacing)
        copy_state(scratch, state_of(marks, m))


TWICE_CHANGED_SHARE = 0.4
"""Share of games that are changed twice."""

_KEEP, _SECOND, _DRAWS = np.uint64(0), np.uint64(1), np.uint64(2)
"""Numbers of the draws of a game: whether it is kept, whether it is changed twice; then the keys of its changes."""


def walk(
    tables: Tables,
    proposal: NDArray[np.int16],
    key: np.uint64,
    decisions: int,
    hot: float,
    cold: float,
) -> Revised:
    """Revise a game until so many buffers have been played anew.

    Args:
        proposal: int16 [N], the game to begin with; what is below 0 is Drop.
        key: of all draws.
        hot, cold: temperatures at the beginning and at the end, in shares of the most that fast memory could save.
    """
    found = _walk(
        tables,
        new_states(tables, 2),
        marks_for(tables),
        uses_of(tables),
        np.maximum(proposal, 0).astype(np.int16),
        key,
        decisions,
        hot * tables.most_s,
        cold * tables.most_s,
        new_words(tables),
    )
    after, present, value_s, best, best_s, tried, played = found
    returned, most = value_s / tables.most_s, best_s / tables.most_s
    return Revised(after[:, None], present[:, None], returned, best[:, None], most, tried, played)


@kernel
def _draw_changes(uses: Uses, proposal: NDArray[np.int16], changed: NDArray[np.int16], key: np.uint64) -> int:
    """Change `changed` in place, which begins as a copy of `proposal`; the first buffer that differs then, N = none."""
    keep = change(uses, changed, bits(key, _DRAWS))
    if uniform(key, _SECOND) < TWICE_CHANGED_SHARE:
        keep = min(keep, change(uses, changed, bits(key, _DRAWS + np.uint64(1))))
    # A change may give a buffer the action that it has.
    while keep < len(proposal) and changed[keep] == proposal[keep]:
        keep += 1
    return keep


@kernel
def _walk(
    tables: Tables,
    states: GameState,
    marks: GameState,
    uses: Uses,
    proposal: NDArray[np.int16],
    key: np.uint64,
    decisions: int,
    hot_s: float,
    cold_s: float,
    words: Words,
) -> tuple[NDArray[np.int16], NDArray[np.int16], float, NDArray[np.int16], float, int, int]:
    """Wishes, actions and return (seconds) of the last game kept; actions and return of the best; games; buffers."""
    buffers = len(proposal)
    kept = Game(state_of(states, 0), np.zeros(buffers))
    trial = Game(state_of(states, 1), np.zeros(buffers))
    tried = 0
    # The first game has none to be compared with: no return is too small, and none is the same.
    restart(tables, kept.state)
    _, played = play_from(tables, kept, proposal, trial, proposal, 0, buffers + 1, -np.inf, words)
    write_marks(tables, trial.state, kept.state, marks, 0)
    value_s = kept.state.game[0].total_s
    best, best_s = kept.state.buffer["action"].astype(np.int16), value_s
    # From buffer `exact` on the kept game's moves follow from its proposal; see `play_from`.
    exact = 0 if kept.state.game[0].resets == 0 else buffers + 1
    changed = proposal.copy()
    while played < decisions and len(uses.decision) > 0:
        own = bits(key, np.uint64(tried))
        tried += 1
        keep = _draw_changes(uses, proposal, changed, own)
        if keep == buffers:
            played += 1  # so that it ends even if nothing can be changed
            continue
        keep = min(keep, kept.state.game[0].cursor)  # a lost game ends early
        # The rule of Metropolis, drawn first: the least return that replaces the kept one at this temperature.
        temperature = hot_s + (cold_s - hot_s) * played / decisions
        least_s = value_s + temperature * math.log(1.0 - uniform(own, _KEEP))
        go_to(tables, trial.state, kept.state, marks, keep)
        trial.so_far_s[:keep] = kept.so_far_s[:keep]
        how, moves = play_from(tables, trial, changed, kept, proposal, keep, exact, least_s, words)
        played += max(1, moves)
        if how == GIVEN_UP or (how == ENDED and trial.state.game[0].total_s < least_s):
            changed[keep:] = proposal[keep:]
            continue
        proposal[keep:] = changed[keep:]
        if how == SAME:
            exact = min(exact, keep)
            continue
        kept, trial = trial, kept
        value_s = kept.state.game[0].total_s
        # A game that went back has other moves before `keep`, too: all marks are written anew, and what a dead end
        # forced does not follow from the proposal.
        went_back = kept.state.game[0].resets > 0
        write_marks(tables, trial.state, kept.state, marks, 0 if went_back else keep)
        exact = buffers + 1 if went_back else min(exact, keep)
        if value_s > best_s:
            best_s = value_s
            best[:] = kept.state.buffer["action"].astype(np.int16)
    return proposal, kept.state.buffer["action"].astype(np.int16), value_s, best, best_s, tried, played
