"""What every method must do, on every problem that it serves. Whose tests take this suite have `CASES` of their own."""

from __future__ import annotations

import csv
import functools
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import subjects
from egrl.core import loop, typed_tables
from egrl.core.archive import START, Archive, Proposals, proposals
from egrl.core.contracts import GENERATION, Budget
from egrl.core.loop import SearchState
from egrl.core.method import Context, Method
from egrl.measure.local import InProcess
from egrl.methods import find_method
from egrl.methods.twin import method as twin_method
from egrl.methods.twin.proposer import TwinConfig
from egrl.runs import checkpoint
from egrl.runs.folder import RunFolder
from hwsim.mappings import repair, sample_uniformly
from hwsim.problem import Evaluation, Keys, Problem, Status
from subjects import SMALL, problem, variant_of

Case = tuple[str, str]
"""A variant of `subjects`, and a problem of it."""
TOYS_FIRST = ("toy-ragged", "toy-game", "toy-grammar-large", "toy-grammar", "toy-coins")


QUICK_FIRST = ("toy-ragged", "toy-game", "toy-grammar-large", "nnpi", "toy-coins")
"""Problems for what takes long."""


def _quickness(name: str) -> int:
    """The place of a problem among `QUICK_FIRST`, the others after them."""
    return QUICK_FIRST.index(name) if name in QUICK_FIRST else len(QUICK_FIRST)


class Cases:
    """Which cases a file of tests has, and which of them `make test` runs.

    Attributes:
        whole: all of them.
        core: of each method one toy and one real problem, where it serves one; of its variants one of them; and of each
            problem one method, a quick one where it can be.
        few: of each method one toy, where it serves one.
        loop: what tests of the loop run.
        alone: of each method one, the first of `QUICK_FIRST` that it serves.
    """

    def __init__(self, whole: Sequence[Case], methods: Collection[str], loop: Collection[Case]) -> None:
        """`methods`: the variants that are methods as they come."""
        self.whole, self.loop = list(whole), set(loop)
        variants = list(dict.fromkeys(variant for variant, _ in whole))
        real = sorted({name for _, name in whole} - set(TOYS_FIRST), key=list(subjects.problems()).index)
        core = {
            (variant, next((name for name in names if (variant, name) in self.whole), ""))
            for variant in variants
            for names in (TOYS_FIRST, real)
            if variant in methods
            or names is TOYS_FIRST
            or not any((variant, toy) in self.whole for toy in TOYS_FIRST)
        }
        core |= {
            min(
                (case for case in self.whole if case[1] == name),
                key=lambda case: case[0] not in ("annealing", "random"),
            )
            for name in {name for _, name in self.whole} - {name for _, name in core}
        }
        self.core = core
        self.few = {case for case in core if case[0] in methods and case[1] in TOYS_FIRST}
        quickest = {
            variant: min((name for of, name in self.whole if of == variant), key=_quickness)
            for variant in variants
        }
        self.alone = {(variant, name) for variant, name in quickest.items() if variant in methods}

    def params(self, gate: str, quick: str = "") -> list[Any]:
        """All cases: those outside `gate` as exhaustive, those of `gate` outside `quick` [gate] as slow."""
        params = []
        for case in self.whole:
            marks = []
            if case not in getattr(self, gate):
                marks.append(pytest.mark.exhaustive)
            elif quick and case not in getattr(self, quick):
                marks.append(pytest.mark.slow)
            params.append(pytest.param(case, marks=marks, id="-".join(case)))
        return params


def cases(gate: str, quick: str = "") -> Callable[[Any], Any]:
    """Marks a test of all cases: `make test` runs those of one attribute of `Cases`, `make quick` those of another."""

    def mark(test: Any) -> Any:
        test.of_cases = (gate, quick)
        return test

    return mark


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each test the cases of the file that takes this suite: `CASES`, a `Cases`."""
    if (of_cases := getattr(metafunc.function, "of_cases", None)) is not None:
        metafunc.parametrize("case", metafunc.module.CASES.params(*of_cases), indirect=True)


@pytest.fixture(autouse=True)
def _the_twin_thinks_quickly(monkeypatch):
    monkeypatch.setattr(twin_method, "SETTINGS", TwinConfig(**SMALL["twin"]))


@pytest.fixture
def case(request: pytest.FixtureRequest) -> tuple[str, Problem]:
    variant, name = request.param
    return variant, problem(name)


@pytest.fixture
def whole(request: pytest.FixtureRequest) -> tuple[Archive, list[dict[str, str]], SearchState]:
    """The case's run of four generations, which several tests look at."""
    return _whole(*request.node.callspec.params["case"])


@functools.cache
def _whole(variant: str, name: str) -> tuple[Archive, list[dict[str, str]], SearchState]:
    with tempfile.TemporaryDirectory() as folder:
        return run(variant, problem(name), Path(folder) / "run", 4)


class Watched(Method):
    """A method, held to the order of calls that its contract promises."""

    def __init__(self, method: Method, starts: int, told: int) -> None:
        """`told`: evaluations that it knows of, having been brought back by a state."""
        self.method, self.starts, self.told = method, starts, told
        self.open: list[Proposals] = []
        self.settled, self.finished = -1, False

    @property
    def ahead(self) -> int:
        """The method's, which is the same from the first batch on."""
        assert self.settled in (-1, self.method.ahead)
        return self.method.ahead

    def ask(self) -> Proposals | None:
        assert self.told >= self.starts
        assert len(self.open) <= self.ahead
        batch = self.method.ask()
        self.settled = self.method.ahead
        self.finished = batch is None
        if batch is not None and len(batch):
            assert START not in batch.source
            self.open.append(batch)
        return batch

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        if self.told < self.starts:
            assert proposals.source.tolist() == [START]
        else:
            assert self.finished or len(self.open) == self.ahead + 1
            np.testing.assert_array_equal(proposals.mapping, self.open.pop(0).mapping)
        assert len(evaluation) == len(proposals)
        np.testing.assert_array_equal(proposals.tickets, self.told + np.arange(len(proposals)))
        self.told += len(proposals)
        self.method.tell(proposals, evaluation)

    def learn(self) -> bool | None:
        return self.method.learn()

    def metrics(self) -> Mapping[str, float]:
        return self.method.metrics()

    def policy(self) -> Any:
        return self.method.policy()

    def champion(self, problem: int) -> int | None:
        return self.method.champion(problem)

    def state_dict(self) -> dict[str, Any] | None:
        state = self.method.state_dict()
        asked = [(batch.mapping, batch.source.tolist(), batch.problem) for batch in self.open]
        return (
            None
            if state is None
            else {"method": state, "open": [list(each) for each in asked], "told": self.told}
        )

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.method.load_state_dict(state["method"])
        self.open = [proposals(*each) for each in state["open"]]
        self.told = state["told"]


def context(problems: Sequence[Problem], seed: int = 0, start: Any = None) -> Context:
    return Context(problems, Archive(problems), seed, [start] * len(problems))


def build(variant: str, given: Context) -> Method:
    name, settings = variant_of(variant)
    definition = find_method(name)
    if len(given.problems) > 1:
        settings = {**settings, **definition.pretraining}
    method = definition.build(given, typed_tables.build(definition.config, settings, variant))
    return Watched(method, sum(start is not None for start in given.start), 0)


class Shuffled(InProcess):
    """Gives results back row by row, the last ones first, a few at a time."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__(problems)
        self._rows: list[tuple[Proposals, Evaluation]] = []

    def ready(self, timeout_s: float) -> list[tuple[Proposals, Evaluation]]:
        for batch, evaluation in super().ready(timeout_s):
            rows = [slice(i, i + 1) for i in range(len(batch))]
            self._rows.extend((batch.rows(at), evaluation.rows(at)) for at in rows)
        return [self._rows.pop() for _ in range(min(4, len(self._rows)))]


class Late(Shuffled):
    """Measures elsewhere: every third time there is a result."""

    _times = 0

    def ready(self, timeout_s: float) -> list[tuple[Proposals, Evaluation]]:
        self._times += 1
        return super().ready(timeout_s) if self._times % 3 == 0 else []


class Failing(InProcess):
    """A board on which two of three measurements fail."""

    def submit(self, proposals: Proposals, key: Keys) -> None:
        super().submit(proposals, key)
        part, evaluation = self._done.pop()
        failed = part.tickets % 3 != 0
        self._done.append((part, fail(evaluation, failed)))


def fail(evaluation: Evaluation, failed: np.ndarray) -> Evaluation:
    return Evaluation(
        np.where(failed, np.nan, evaluation.reward),
        np.where(failed, np.nan, evaluation.cost),
        np.where(failed, 0.0, evaluation.speedup),
        evaluation.epsilon,
        np.where(failed, Status.FAILED, evaluation.status).astype(np.int8),
        evaluation.partial,
        evaluation.repaired,
    )


def run(
    variant: str,
    problems: Problem | Sequence[Problem],
    path: Path,
    gens: int,
    *,
    seed: int = 0,
    executor: type[InProcess] = InProcess,
    resume: bool = False,
    start: Any = None,
    evals: int | None = None,
    stop: Callable[[Archive], bool] = lambda archive: False,
    checkpoint_seconds: float = 1e9,
) -> tuple[Archive, list[dict[str, str]], SearchState]:
    problems = list(problems) if isinstance(problems, Sequence) else [problems]
    given = context(problems, seed, start)
    method = build(variant, given)
    folder = RunFolder.reopen(path) if resume else RunFolder.create(path)
    try:
        if not resume:
            folder.write_inputs("kind = 'config'\n", problems, {})
        reached = loop.search(
            method,
            given,
            executor(problems),
            Budget.of_generations(gens) if evals is None else Budget(evals, None),
            folder,
            state=loop.resume(method, folder, given) if resume else None,
            stop=lambda: stop(given.archive),
            checkpoint_seconds=checkpoint_seconds,
        )
    finally:
        folder.close()
    with open(path / "metrics.csv") as stream:
        rows = [{k: v for k, v in row.items() if not k.endswith("seconds")} for row in csv.DictReader(stream)]
    return given.archive, rows, reached


def killed_after(evaluations: int) -> Any:
    """A `RunFolder.save` that saves once, when there are so many evaluations: the last thing that a process does."""
    save = RunFolder.save

    def saving(self: RunFolder, at: int, method: Any, state: Any, archive: Archive) -> None:
        if len(archive) >= evaluations:
            save(self, at, method, state, archive)
            raise KeyboardInterrupt

    return saving


def assert_equal(a: tuple[Archive, Any, Any], b: tuple[Archive, Any, Any]) -> None:
    for name in ("reward", "cost", "speedup", "epsilon", "status", "problem"):
        np.testing.assert_array_equal(a[0].column(name)[:], b[0].column(name)[:], err_msg=name)
    np.testing.assert_array_equal(a[0].sources(slice(None)), b[0].sources(slice(None)))
    for number in np.unique(a[0].column("problem")[:]):
        tickets = np.flatnonzero(a[0].column("problem")[:] == number)
        np.testing.assert_array_equal(a[0].mappings(tickets), b[0].mappings(tickets))
    assert a[1] == b[1]


@cases("core")
def test_it_proposes_legal_mappings_and_spends_the_budget(case, whole):
    variant, problem = case
    archive, rows, state = whole
    assert len(archive) == 4 * GENERATION
    assert [int(row["generation"]) for row in rows] == [1, 2, 3, 4]
    for ticket in range(len(archive)):
        assert (archive.mappings(np.array([ticket])) < problem.space.num_choices).all()
    champion = state.champions[0]
    valid = (archive.column("status")[:] == Status.OK) & ~archive.column("partial")[:]
    best = np.nanmax(np.where(valid, archive.column("reward")[:], np.nan), initial=-np.inf)
    assert champion is None or champion.reward == best
    assert set(build(variant, context([problem])).metrics()) <= set(rows[0])


@cases("loop")
def test_neither_the_order_of_results_nor_their_delay_changes_a_run(case, whole, tmp_path):
    variant, problem = case
    assert_equal(whole, run(variant, problem, tmp_path / "r", 4, executor=Late))


@cases("core", quick="loop")
def test_a_run_killed_within_a_generation_resumes_to_the_same_end(case, whole, tmp_path, monkeypatch):
    variant, problem = case
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "save", killed_after(45))
        with pytest.raises(KeyboardInterrupt):
            run(variant, problem, tmp_path / "r", 4, executor=Late, checkpoint_seconds=0.0)
    assert_equal(whole, run(variant, problem, tmp_path / "r", 4, resume=True))


@cases("few", quick="loop")
def test_another_seed_gives_another_run(case, whole, tmp_path):
    variant, problem = case
    # Of a toy with few plans, two seeds may well try the same ones.
    others = (run(variant, problem, tmp_path / f"{seed}", 2, seed=seed) for seed in range(1, 6))
    mappings = whole[0].mappings(np.arange(42))
    assert any((mappings != other[0].mappings(np.arange(42))).any() for other in others)


@cases("loop")
def test_the_same_seed_gives_the_same_run(case, whole, tmp_path):
    variant, problem = case
    assert_equal(whole, run(variant, problem, tmp_path / "a", 4))
    assert_equal(whole, run(variant, problem, tmp_path / "b", 4, executor=Shuffled))


@cases("loop")
def test_a_resumed_run_equals_a_longer_one(case, whole, tmp_path):
    variant, problem = case
    run(variant, problem, tmp_path / "r", 2)
    assert_equal(whole, run(variant, problem, tmp_path / "r", 4, resume=True))


@pytest.mark.parametrize("evals", [1, 4, 20, 60])
@cases("loop")
def test_a_budget_within_a_generation_is_spent_exactly_and_goes_on(case, whole, tmp_path, evals):
    variant, problem = case
    path = tmp_path / "r"
    archive, rows, state = run(variant, problem, path, 0, evals=evals)
    assert len(archive) == evals
    assert state.generation == evals // GENERATION
    assert [int(row["evaluations"]) for row in rows] == [*range(GENERATION, evals, GENERATION), evals]
    assert_equal(whole, run(variant, problem, path, 4, resume=True))


@cases("loop")
def test_a_run_stopped_within_a_generation_resumes_to_the_same_end(case, whole, tmp_path):
    variant, problem = case
    stopped = run(variant, problem, tmp_path / "r", 4, stop=lambda archive: len(archive) > 30)
    assert 30 < len(stopped[0]) < 84
    assert_equal(whole, run(variant, problem, tmp_path / "r", 4, resume=True))


@cases("core")
def test_its_state_survives_a_checkpoint(case):
    variant, problem = case
    state = build(variant, context([problem])).state_dict()
    if state is not None:
        tree = checkpoint.loads(checkpoint.dumps({"method": state}), "memory")
        build(variant, context([problem])).load_state_dict(tree["method"])
        assert checkpoint.dumps(tree) == checkpoint.dumps({"method": state})


@pytest.mark.slow
@cases("alone")
def test_it_serves_two_problems_or_refuses_them(case, tmp_path):
    variant, problem = case
    two = [problem] * 2
    if not find_method(variant_of(variant)[0]).several:
        with pytest.raises(ValueError, match="problems: expected one, received 2"):
            build(variant, context(two))
        return
    archive, rows, state = run(variant, two, tmp_path / "a", 0, evals=130)
    turns = np.bincount(archive.column("problem")[:], minlength=2)
    assert turns.sum() == 130
    assert turns.min() >= 30
    assert all(champion is not None for champion in state.champions)
    run(variant, two, tmp_path / "b", 0, evals=59)
    assert_equal((archive, rows, state), run(variant, two, tmp_path / "b", 0, evals=130, resume=True))


@cases("core")
def test_the_start_mapping_is_measured_first(case, tmp_path):
    variant, problem = case
    drawn = sample_uniformly(problem, np.array([3], np.uint64))
    start = repair(problem, drawn, np.zeros(1, np.uint64))
    archive, _, _ = run(variant, problem, tmp_path / "r", 1, start=start[0])
    assert archive.sources(slice(1)) == ["start"]
    expected = problem.evaluate(start, np.zeros(1, np.uint64))
    np.testing.assert_array_equal(archive.mappings(np.array([0])), expected.repaired)


@cases("few", quick="loop")
def test_failed_measurements_end_nothing_and_are_never_champions(case, tmp_path):
    variant, problem = case
    archive, _, state = run(variant, problem, tmp_path / "r", 4, executor=Failing)
    assert len(archive) == 4 * GENERATION
    assert (archive.column("status")[:] == Status.FAILED).sum() == 56
    assert state.champions[0] is None or state.champions[0].ticket % 3 == 0
