"""The kernels of op times and of local search, held to plain Python and to the problem's own rules."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from egrl.methods.profile_model.accesses import Accesses, node_features, read_accesses, readable
from egrl.methods.profile_model.family import NO_CONTEXT, ContextShape, Layout
from egrl.methods.profile_model.local_search import anneal, repair
from egrl.methods.profile_model.slopes import slopes
from egrl.methods.profile_model.times import Constants, held_by, predict
from hwsim.mappings import sample_uniformly
from hwsim.memory_moves import make_room
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiProblem
from subjects import problem as subject
from workloads.load import load

SHAPES = (NO_CONTEXT, ContextShape(1, 0, 1), ContextShape(2, 1, -1), ContextShape(0, 0, 2))


@pytest.fixture(scope="module")
def problem() -> NnpiProblem:
    return NnpiProblem(load("resnet50"), load_chip("nnpi"))


@pytest.fixture(scope="module")
def accesses(problem: NnpiProblem) -> Accesses:
    return read_accesses(problem)


def drawn(accesses: Accesses, shape: ContextShape, seed: int) -> Constants:
    """Constants drawn from their prior."""
    rng = np.random.default_rng(seed)
    layout = Layout(accesses, 1.5)
    theta = layout.mean + rng.normal(size=layout.size) * np.minimum(layout.spread, 1.0)
    nodes, count = len(accesses.output), len(accesses.node)
    delta = 0.1 * rng.normal(size=(count, layout.levels))
    return layout.constants(theta, shape, rng.normal(size=nodes), 0.2 * rng.normal(size=count), delta)


def mappings(problem: NnpiProblem, count: int, seed: int) -> np.ndarray:
    """Valid mappings: rules, some of their decisions drawn anew."""
    rng = np.random.default_rng(seed)
    rules = list(problem.baseline.rules().values())
    rows = np.stack([rules[k % len(rules)] for k in range(count)])
    changed = np.where(rng.random(rows.shape) < 0.15, rng.integers(0, 3, rows.shape), rows)
    return problem.rectify(changed.astype(np.int16))


@dataclass
class Plain:
    """The model of op times in plain Python, one mapping at a time."""

    accesses: Accesses
    constants: Constants
    mapping: np.ndarray

    def free(self, memory: int, step: int) -> float:
        a = self.accesses
        held = [
            a.tensor[i, h]
            for i, h in np.argwhere(self.mapping == memory)
            if a.first[i, h] <= step <= a.last[i, h]
        ]
        return a.capacity[memory] - sum(held)

    def of(self, i: int) -> range:
        return range(self.accesses.start[i], self.accesses.start[i + 1])

    def memory(self, access: int) -> int:
        return int(self.mapping[self.accesses.node[access], self.accesses.head[access]])

    def ahead(self, access: int) -> bool:
        c = self.constants
        return (self.accesses.role[access], self.memory(access)) == (c.role, c.memory)

    def wanted(self, i: int) -> float:
        return sum(self.constants.share * self.accesses.size[a] for a in self.of(i) if self.ahead(a))

    def op(self, i: int, used: float) -> tuple[float, list[float]]:
        """Seconds of op i, and of its memories."""
        a, c, wanted = self.accesses, self.constants, self.wanted(i)
        levels = range(len(c.latency))
        home = self.memory(a.output[i]) if a.output[i] >= 0 else -1
        seconds, moved, stays, delta = [used * c.charge[m] for m in levels], [0.0 for _ in levels], 0.0, 0.0
        for access in self.of(i):
            m, size = self.memory(access), a.size[access]
            if self.ahead(access):
                size *= 1.0 - (c.share * used / wanted if wanted else 0.0)
            if access == a.output[i]:
                size = max(0.0, size - stays)
            elif m == home and a.node[access] != i:
                stays += c.stay[a.group[i]] * size
                size *= 1.0 - c.stay[a.group[i]]
            size *= c.traffic[access]
            moved[m] += size
            seconds[m] += size * c.rate[a.role[access], m] + c.latency[m]
            delta += c.delta[access, m]
        for m in levels:
            seconds[m] += sum(c.cross[other, m] * moved[other] for other in levels)
        hidden = [(1.0 - c.exposed[m]) * s for m, s in enumerate([*seconds, c.work[i]])]
        shown = sum(c.exposed[m] * s for m, s in enumerate([*seconds, c.work[i]]))
        return float((c.overhead + shown + max(hidden)) * np.exp(delta)), seconds

    def predict(self) -> list[float]:
        c, out, held = self.constants, [], 0.0
        later = sum(self.wanted(i) for i in range(len(self.mapping)))
        for i in range(len(self.mapping)):
            room = c.room + (c.free_share * self.free(c.into, i) if c.into >= 0 else 0.0)
            room = max(0.0, room)
            held = min(held, room)
            used = min(held, self.wanted(i))
            seconds, tau = self.op(i, used)
            out.append(seconds)
            later -= self.wanted(i)
            idle = max(0.0, seconds - sum(loss * s for loss, s in zip(c.loss, tau, strict=True)))
            held = max(0.0, min(held - used + c.gain * idle, room - used, later))
        return out


@pytest.mark.parametrize("shape", SHAPES)
def test_predictions_equal_plain_python(problem, accesses, shape):
    rows, used = mappings(problem, 3, 1), 0
    for seed in range(3):
        constants = drawn(accesses, shape, seed)
        found = predict(accesses, constants, rows)
        for row, seconds in zip(rows, found, strict=True):
            np.testing.assert_allclose(seconds, Plain(accesses, constants, row).predict(), rtol=1e-9)
        if shape != NO_CONTEXT:
            without = predict(accesses, constants._replace(gain=0.0), rows)
            used += int((without != found).sum())
    assert shape == NO_CONTEXT or used > 0, "the context has made no difference"


def test_its_repair_is_the_problems_own(problem, accesses):
    rows = sample_uniformly(problem, np.arange(40, dtype=np.uint64))
    expected = problem.rectify(rows)
    assert (expected != rows).any()
    for row, valid in zip(rows, expected, strict=True):
        repair(accesses, row, np.zeros(3), np.zeros(3))
        np.testing.assert_array_equal(row, valid)


def test_room_is_made_by_moving_passing_tensors_to_faster_memories_that_have_it(problem, accesses):
    moved = 0
    for seed in range(20):
        row = mappings(problem, seed + 1, seed)[-1]
        row[:, 0] = np.where(problem.space.live[:, 0], seed % 3, -1)
        expected = _room_made(accesses, row)
        moved += int((expected != row).sum())
        make_room(held_by(accesses), row, np.zeros((3, len(row))))
        np.testing.assert_array_equal(row, expected)
    assert moved > 0


def _room_made(accesses: Accesses, mapping: np.ndarray) -> np.ndarray:
    """`make_room` in plain Python: all free bytes are counted anew after each move."""
    row, nodes = mapping.copy(), len(mapping)
    for i, h in np.ndindex(*row.shape):
        steps = range(accesses.first[i, h], accesses.last[i, h] + 1)
        plain = Plain(accesses, None, row)  # type: ignore[arg-type]
        if row[i, h] <= 0 or len(steps) == nodes or min(plain.free(row[i, h], t) for t in steps) >= -1e-9:
            continue
        for to in (2, 1):
            if to != row[i, h] and min(plain.free(to, t) for t in steps) >= accesses.tensor[i, h]:
                row[i, h] = to
                break
    return row


@pytest.mark.parametrize("shape", SHAPES)
def test_a_search_on_a_model_ends_in_a_valid_mapping_at_its_predicted_cost(problem, accesses, shape):
    constants, start = drawn(accesses, shape, 4), problem.baseline.mapping
    begun = predict(accesses, constants, start[None]).sum()
    found, cost = anneal(accesses, constants, start, steps=3000, hot=2e-3, key=5)
    assert problem.judge(found) == []
    assert cost == pytest.approx(predict(accesses, constants, found[None]).sum(), rel=1e-9)
    assert cost < 0.999 * begun
    again, _ = anneal(accesses, constants, start, steps=3000, hot=2e-3, key=5)
    np.testing.assert_array_equal(found, again)
    assert (anneal(accesses, constants, start, steps=3000, hot=2e-3, key=6)[0] != found).any()


def test_accesses_are_those_of_the_network(problem, accesses):
    ops = load("resnet50").ops
    for i in range(len(ops)):
        at = slice(accesses.start[i], accesses.start[i + 1])
        inputs = [problem.space.nodes[n] for n in accesses.node[at] if n != i]
        assert inputs == [edge.source for edge in ops[i].inputs]
        own = [
            problem.space.heads[h]
            for n, h in zip(accesses.node[at], accesses.head[at], strict=True)
            if n == i
        ]
        assert own == ["weight", "activation"][: len(own)] or own == ["activation"]
        assert accesses.head[accesses.output[i]] == 1
        assert accesses.node[accesses.output[i]] == i
    readers = accesses.reader[accesses.reader_start[1] : accesses.reader_start[2]]
    assert 0 in readers
    assert len(readers) == 1 + sum(edge.source == ops[0].name for op in ops for edge in op.inputs)
    features = node_features(problem, accesses)
    assert np.isfinite(features).all()
    assert len(features) == len(ops)


def test_it_reads_problems_whose_choices_are_memories_and_whose_cost_is_a_sum():
    assert readable(subject("nnpi"))
    assert not readable(subject("mcm"))
    assert not readable(subject("mmap"))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(3))
def test_slopes_are_those_of_finite_differences(
    problem: NnpiProblem, accesses: Accesses, shape: ContextShape, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    layout = Layout(accesses, 1.5)
    theta = layout.mean + rng.normal(size=layout.size) * np.minimum(layout.spread, 1.0)
    work, traffic = rng.normal(size=len(accesses.output)), 0.2 * rng.normal(size=len(accesses.node))
    rows, none = mappings(problem, 4, seed), np.zeros((len(accesses.node), layout.levels))

    def log_seconds(theta: np.ndarray, work: np.ndarray, traffic: np.ndarray) -> np.ndarray:
        return np.log(predict(accesses, layout.constants(theta, shape, work, traffic, none), rows))

    def difference(*change: np.ndarray) -> np.ndarray:
        """By a change of theta, work and traffic, to both sides; NaN where the times have a kink."""
        sides = [
            side
            * (log_seconds(*(a + 1e-5 * side * b for a, b in zip(at, change, strict=True))) - here)
            / 1e-5
            for side in (1, -1)
        ]
        return np.where(np.abs(sides[0] - sides[1]) < 1e-3, (sides[0] + sides[1]) / 2, np.nan)

    at = theta, work, traffic
    here = log_seconds(*at)
    constants = layout.constants(*at[:1], shape, *at[1:], none)
    seconds, by_constant, own = slopes(accesses, constants, rows, layout.begins, layout.size, 4)
    assert np.allclose(np.log(seconds), here, atol=1e-12)
    by_theta = by_constant @ layout.slopes(constants)
    moves = 0
    for k in layout.active(shape):
        expected = difference(np.eye(layout.size)[k], 0.0 * work, 0.0 * traffic)
        known = np.isfinite(expected)
        assert known.mean() > 0.9, k
        moves += np.abs(expected[known]).max() > 1e-3
        np.testing.assert_allclose(by_theta[:, :, k][known], expected[known], atol=1e-4, err_msg=str(k))
    assert moves > 0.7 * len(layout.active(shape))
    if shape == NO_CONTEXT:
        for q in range(5):
            first = accesses.start[:-1] + q - 1
            has = first < accesses.start[1:]
            factor = np.zeros(len(traffic))
            factor[first[has]] = float(q > 0)
            expected = difference(0.0 * theta, np.full(len(work), float(q == 0)), factor)
            known = np.isfinite(expected) & (has | (q == 0))
            np.testing.assert_allclose(own[:, :, q][known], expected[known], atol=1e-4)
            assert np.all(own[:, :, q][:, ~has] == 0.0) or q == 0
