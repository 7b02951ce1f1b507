"""Single rules of the game on programs made for them: a step mostly has 100 ns for copies, a byte takes 1 ns."""

from __future__ import annotations

import numpy as np

from hwsim.mmap.chip import Chip, Cmem, Compute, Hbm
from hwsim.mmap.game import MmapGame, Outcomes
from hwsim.mmap.rules.state import FORCED
from hwsim.mmap.tables import build_tables
from workloads.programs.program import NO_ALIAS, Buffer, Instruction, Program, Tensor

DROP, COPY, NO_COPY = 0, 1, 2
IN, OUT = False, True


def game(
    sizes: list[int],
    uses: list[tuple[int, int, bool]],
    steps: int,
    granules: int = 100,
    groups: tuple[int, ...] = (),
    flops: int = 100,
    rate: float = 1e9,
    **rules: bool,
) -> MmapGame:
    """Uses are (tensor, step, is_output); what is never written is there at the start."""
    written = {tensor: step for tensor, step, out in uses if out}
    last = {tensor: max(s for t, s, _ in uses if t == tensor) for tensor, _, _ in uses}
    program = Program(
        "p",
        tuple(Instruction(f"i{k}", "dot", flops) for k in range(steps)),
        tuple(Tensor(f"t{k}", size, written.get(k, -1), last[k]) for k, size in enumerate(sizes)),
        tuple(
            Buffer(tensor, step, out, 0, groups[n] if groups else NO_ALIAS)
            for n, (tensor, step, out) in enumerate(uses)
        ),
    )
    chip = Chip("c", Cmem(16 * granules, 16, rate, rate), Hbm(rate), Compute(rate))
    return MmapGame(build_tables(program, chip, **rules), 16)


def outcomes_after(subject: MmapGame, *actions: int) -> Outcomes:
    state = subject.reset(1)
    for action in actions:
        state, _, _ = subject.step(state, np.array([action], np.int16))
    return subject.outcomes(state)


def window(outcomes: Outcomes) -> tuple[int, int] | None:
    if not outcomes.legal[0, COPY]:
        return None
    return int(outcomes.copy_first[0, COPY]), int(outcomes.copy_last[0, COPY])


def test_a_copy_begins_as_late_as_its_supply_allows():
    subject = game([150, 100, 101, 300], [(0, 4, IN), (1, 4, IN), (2, 4, IN), (3, 4, IN)], 5)
    assert window(outcomes_after(subject)) == (2, 3)
    assert window(outcomes_after(subject, COPY)) == (1, 2), (
        "half of step 2 is left; beyond it, step 3 is tied"
    )
    assert window(outcomes_after(subject, DROP)) == (3, 3)
    assert window(outcomes_after(subject, DROP, DROP)) == (2, 3)
    assert window(outcomes_after(subject, DROP, COPY)) == (1, 2)
    assert window(outcomes_after(subject, COPY, COPY, DROP)) is None


def test_a_window_does_not_span_the_inside_of_an_earlier_inputs_window():
    subject = game([120, 140, 30], [(0, 3, IN), (1, 4, IN), (2, 4, IN)], 5)
    assert window(outcomes_after(subject)) == (1, 2)
    assert window(outcomes_after(subject, COPY)) == (0, 1), (
        "80 ns of step 1 and 100 of step 0, none of step 3"
    )
    assert window(outcomes_after(subject, COPY, COPY)) == (3, 3)


def test_a_window_does_not_span_the_inside_of_an_earlier_outputs_window():
    subject = game([120, 150, 60], [(0, 1, OUT), (1, 5, IN), (2, 5, IN)], 6)
    assert window(outcomes_after(subject)) == (2, 3)
    assert window(outcomes_after(subject, COPY)) == (3, 4), "80 ns of step 3 are left beside all of step 4"
    first = game([150, 160, 60], [(0, 1, OUT), (1, 4, IN), (2, 4, IN)], 5)
    assert window(outcomes_after(first, COPY)) == (0, 1), "50 ns of step 3 do not do, and beyond is tied"


def test_a_window_that_is_wholly_empty_still_parts_what_lies_beyond():
    # In binary fractions: copies of 192 and 64 out of steps of 128 leave steps 2 and 3 with nothing at all, tied.
    subject = game([192, 64, 192], [(0, 1, OUT), (1, 4, IN), (2, 5, IN)], 6, flops=128, rate=2.0**30)
    assert window(outcomes_after(subject, COPY)) == (3, 3)
    assert window(outcomes_after(subject, COPY, COPY)) == (0, 1), "128 of step 4 do not count with step 1"
    alone = game([256, 192], [(0, 1, OUT), (1, 5, IN)], 6, flops=128, rate=2.0**30)
    assert window(outcomes_after(alone, COPY)) == (0, 1), "and not where one window empties both"


def test_an_output_is_copied_after_what_is_copied_already():
    subject = game([150, 30, 200], [(0, 1, OUT), (1, 1, OUT), (2, 1, OUT)], 6)
    assert window(outcomes_after(subject)) == (2, 3)
    assert window(outcomes_after(subject, COPY)) == (3, 3)
    assert window(outcomes_after(subject, COPY, COPY)) == (3, 5), "20 ns of step 3 are left"
    assert window(outcomes_after(subject, COPY, DROP)) == (3, 5)


def test_literal_windows_touch_their_instruction():
    subject = game([150, 40, 150], [(0, 4, IN), (1, 4, IN), (2, 5, IN)], 6, literal_copies=True)
    assert window(outcomes_after(subject)) == (2, 3)
    assert window(outcomes_after(subject, COPY)) is None, "step 3 is empty, and tied to step 2"
    assert window(outcomes_after(subject, COPY, DROP)) is None, (
        "100 ns of step 4, then steps 3 and 2 are tied"
    )
    assert window(outcomes_after(subject, DROP, COPY)) == (3, 4)


def test_a_tensor_that_was_copied_out_is_not_copied_in_before_that_has_ended():
    subject = game([150], [(0, 0, OUT), (0, 4, IN), (0, 5, IN)], 7)
    assert window(outcomes_after(subject)) == (1, 2)
    assert window(outcomes_after(subject, COPY)) is None, "from step 3 on there are 100 ns before step 4"
    assert window(outcomes_after(subject, COPY, DROP)) == (3, 4)
    assert window(outcomes_after(subject, DROP)) == (2, 3)
    assert window(outcomes_after(subject, NO_COPY)) == (2, 3)


def test_a_nocopy_goes_on_where_the_tensor_lies_or_needs_nothing():
    subject = game([32, 32], [(0, 0, OUT), (1, 1, OUT), (0, 2, IN), (0, 5, IN)], 7)
    kept = outcomes_after(subject, NO_COPY, DROP)
    assert (kept.first[0, NO_COPY], kept.last[0, NO_COPY], kept.offset_bytes[0, NO_COPY]) == (-1, -1, 0)
    gone = outcomes_after(subject, COPY, DROP)
    assert (gone.first[0, NO_COPY], gone.last[0, NO_COPY]) == (2, 2)
    assert not outcomes_after(subject, DROP, DROP).legal[0, NO_COPY]


def test_a_nocopy_is_illegal_where_something_else_lies_by_then():
    subject = game([32, 32], [(0, 0, OUT), (1, 2, OUT), (0, 4, IN), (1, 5, IN)], 7, granules=4)
    assert outcomes_after(subject, COPY, NO_COPY).offset_bytes[0].tolist() == [-1, 32, -1]
    assert not outcomes_after(subject, COPY, NO_COPY).legal[0, NO_COPY]


def test_a_dead_end_goes_back_no_further_than_to_the_last_state_without_an_open_group():
    # Group 0 is over before t1. Group 1's second member finds t3 in its place: back to its first one.
    uses = [(0, 1, IN), (0, 2, IN), (1, 4, IN), (2, 6, IN), (3, 7, OUT), (2, 8, IN), (3, 10, IN)]
    subject = game([32, 16, 32, 32], uses, 11, granules=2, groups=(0, 0, -1, 1, -1, 1, -1))
    state, rewards = subject.reset(1), []
    seen = []
    for action in (COPY, NO_COPY, COPY, COPY, NO_COPY):
        seen.append(int(state.game["backup"][0]))
        state, reward, _ = subject.step(state, np.array([action], np.int16))
        rewards.append(reward[0])
    assert seen == [0, 0, 2, 3, 3]
    assert (state.game["cursor"][0], state.game["resets"][0]) == (3, 1)
    assert (state.group["state"] == FORCED).tolist() == [[False, True]]
    assert state.buffer["action"][0, :3].tolist() == [COPY, NO_COPY, COPY]
    assert subject.outcomes(state).legal[0].tolist() == [True, False, False]
