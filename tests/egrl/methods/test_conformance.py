"""What every method must do, on every problem that it serves."""

from __future__ import annotations

import csv
import functools
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from egrl.core import loop, typed_tables
from egrl.core.archive import Archive
from egrl.core.budget import GENERATION, Budget
from egrl.core.method import Context, Method
from egrl.core.proposals import START, Proposals, proposals
from egrl.core.state import SearchState
from egrl.measure.local import InProcess
from egrl.methods import METHODS, find_method
from egrl.methods.hybrid import twin
from egrl.methods.twin.proposer import TwinConfig
from egrl.runs import checkpoint
from egrl.runs.folder import RunFolder
from hwsim.mappings import repair, sample_uniformly
from hwsim.problem import Evaluation, Keys, Problem, Status
from subjects import EXHAUSTIBLE, NEVER_TWICE, ONE_SHOT, PROBLEMS, SMALL, VARIANTS, problem, served

EVERYWHERE = ("nnpi", "nnpi-penalise", "toy-ragged", "toy-game", "toy-grammar", "fft")
PENALISED = ("egrl", "pg", "es", "annealing", "greedy-dp", "random")
"""Methods that are tried where invalid mappings are penalised; the rest learn of rewards in the same way."""
CASES = [
    (variant, name)
    for variant in VARIANTS
    for name in (EVERYWHERE if variant in METHODS else ("toy-ragged", "toy-grammar"))
    if served(variant, problem(name))
    and (name != "nnpi-penalise" or variant in PENALISED)
    and not (variant in NEVER_TWICE and name in EXHAUSTIBLE)
    and (variant, name) != ("greedy-dp", "fft")
    and (variant, name) != ("egrl-twin", "toy-ragged")
]
CASES += [("egrl-twin", "nnpi")]
CASES += [(variant, "toy-grammar-large") for variant in NEVER_TWICE]
CASES += [(variant, "fft-64") for variant in ("tag", "uct", "tag-parallel", "greedy-dp", "random-plans")]
CASES += [(variant, name) for variant in ("tag", "uct") for name in ("mcm", "mmap")]
CASES += [("uct-decisions", "mcm"), ("random-plans", "toy-grammar")]
CASES += [(variant, "mmap-literal") for variant in ("annealing", "greedy-dp", "muzero")]
CASES += [(variant, "toy-game") for variant in VARIANTS if variant.startswith("muzero-")]
CASES += [(variant, "mcm") for variant in ("annealing", "annealing-distributions", "egrl", "random")]
CASES += [("revise", name) for name in ("toy-coins", "mmap", "mmap-literal", "mmap-lost")]
CASES += [("ea", "mcm-device"), ("ppo", "mcm"), ("random", "nnpi-noisy")]
CASES += [(variant, "shard") for variant in ("annealing", "ea", "random", "tag")]
CASES += [(variant, "training") for variant in ("annealing", "ea", "egrl", "random")]
CASES += [("annealing", "training-penalise"), ("twin", "training")]


TOYS_FIRST = ("toy-ragged", "toy-game", "toy-grammar-large", "toy-grammar", "toy-coins")
CORE = {
    (variant, next((name for name in names if (variant, name) in CASES), ""))
    for variant in VARIANTS
    for names in (TOYS_FIRST, [name for name in PROBLEMS if name not in TOYS_FIRST])
    if variant in METHODS or names is TOYS_FIRST or not any((variant, toy) in CASES for toy in TOYS_FIRST)
}
"""Of each method one toy and one real problem, where it serves one; of its variants one of them."""
CORE |= {
    min((case for case in CASES if case[1] == name), key=lambda case: case[0] not in ("annealing", "random"))
    for name in {name for _, name in CASES} - {name for _, name in CORE}
}
"""And of each problem one method, a quick one where it can be."""
FEW = {case for case in CORE if case[0] in METHODS and (case[1] in TOYS_FIRST or case == ("twin", "nnpi"))}
"""Of each method one toy, where it serves one."""
LOOP = {("random", "toy-ragged"), ("random", "nnpi"), ("egrl", "toy-ragged"), ("ea", "nnpi")}
LOOP |= {("annealing-chains", "toy-ragged"), ("muzero", "toy-game"), ("random", "nnpi-noisy")}
"""What tests of the loop run: methods that are asked ahead by 0, 1 and 3 batches, with rounds and without."""


def cases(gate: set[tuple[str, str]], quick: set[tuple[str, str]] | None = None) -> Any:
    """All cases: those outside `gate` as exhaustive, those of `gate` outside `quick` [gate] as slow."""
    params = []
    for case in CASES:
        marks = []
        if case not in gate:
            marks.append(pytest.mark.exhaustive)
        elif quick is not None and case not in quick:
            marks.append(pytest.mark.slow)
        params.append(pytest.param(case, marks=marks, id="-".join(case)))
    return pytest.mark.parametrize("case", params, indirect=True)


@pytest.fixture(autouse=True)
def _the_twin_thinks_quickly(monkeypatch):
    monkeypatch.setattr(twin, "SETTINGS", TwinConfig(**SMALL["twin"]))


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
    name, settings = VARIANTS[variant]
    definition = find_method(name)
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


def test_every_registered_method_takes_part() -> None:
    assert {name for name, _ in VARIANTS.values()} == set(METHODS) - set(ONE_SHOT)


@cases(CORE)
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


@cases(LOOP)
def test_neither_the_order_of_results_nor_their_delay_changes_a_run(case, whole, tmp_path):
    variant, problem = case
    assert_equal(whole, run(variant, problem, tmp_path / "r", 4, executor=Late))


@cases(CORE, quick=LOOP)
def test_a_run_killed_within_a_generation_resumes_to_the_same_end(case, whole, tmp_path, monkeypatch):
    variant, problem = case
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "save", killed_after(45))
        with pytest.raises(KeyboardInterrupt):
            run(variant, problem, tmp_path / "r", 4, executor=Late, checkpoint_seconds=0.0)
    assert_equal(whole, run(variant, problem, tmp_path / "r", 4, resume=True))


@cases(FEW, quick=LOOP)
def test_another_seed_gives_another_run(case, whole, tmp_path):
    variant, problem = case
    # Of a toy with few plans, two seeds may well try the same ones.
    others = (run(variant, problem, tmp_path / f"{seed}", 2, seed=seed) for seed in range(1, 6))
    mappings = whole[0].mappings(np.arange(42))
    assert any((mappings != other[0].mappings(np.arange(42))).any() for other in others)


@cases(LOOP)
def test_the_same_seed_gives_the_same_run(case, whole, tmp_path):
    variant, problem = case
    assert_equal(whole, run(variant, problem, tmp_path / "a", 4))
    assert_equal(whole, run(variant, problem, tmp_path / "b", 4, executor=Shuffled))


@cases(LOOP)
def test_a_resumed_run_equals_a_longer_one(case, whole, tmp_path):
    variant, problem = case
    run(variant, problem, tmp_path / "r", 2)
    assert_equal(whole, run(variant, problem, tmp_path / "r", 4, resume=True))


@pytest.mark.parametrize("evals", [1, 4, 20, 60])
@cases(LOOP)
def test_a_budget_within_a_generation_is_spent_exactly_and_goes_on(case, whole, tmp_path, evals):
    variant, problem = case
    path = tmp_path / "r"
    archive, rows, state = run(variant, problem, path, 0, evals=evals)
    assert len(archive) == evals
    assert state.generation == evals // GENERATION
    assert [int(row["evaluations"]) for row in rows] == [*range(GENERATION, evals, GENERATION), evals]
    assert_equal(whole, run(variant, problem, path, 4, resume=True))


@cases(LOOP)
def test_a_run_stopped_within_a_generation_resumes_to_the_same_end(case, whole, tmp_path):
    variant, problem = case
    stopped = run(variant, problem, tmp_path / "r", 4, stop=lambda archive: len(archive) > 30)
    assert 30 < len(stopped[0]) < 84 or variant.startswith("pymoo")  # which asks for a hundred at once
    assert_equal(whole, run(variant, problem, tmp_path / "r", 4, resume=True))


@cases(CORE)
def test_its_state_survives_a_checkpoint(case):
    variant, problem = case
    state = build(variant, context([problem])).state_dict()
    if state is not None:
        tree = checkpoint.loads(checkpoint.dumps({"method": state}), "memory")
        build(variant, context([problem])).load_state_dict(tree["method"])
        assert checkpoint.dumps(tree) == checkpoint.dumps({"method": state})


@pytest.mark.slow
@pytest.mark.parametrize(
    "variant",
    [pytest.param(v, marks=[] if v in METHODS else [pytest.mark.exhaustive]) for v in VARIANTS],
)
def test_it_serves_two_problems(variant, tmp_path, monkeypatch):
    name = next(
        name
        for name in ("toy-ragged", "toy-game", "toy-grammar-large", "fft-64", "nnpi", "toy-coins")
        if (variant, name) in CASES
    )
    if variant.startswith("muzero"):
        monkeypatch.setitem(VARIANTS, variant, ("muzero", {**VARIANTS[variant][1], "network.ids": 0}))
    two = [problem(name)] * 2
    archive, rows, state = run(variant, two, tmp_path / "a", 0, evals=130)
    turns = np.bincount(archive.column("problem")[:], minlength=2)
    assert turns.sum() == 130
    assert turns.min() >= 30 or variant.startswith("pymoo")
    assert all(champion is not None for champion in state.champions)
    run(variant, two, tmp_path / "b", 0, evals=59)
    assert_equal((archive, rows, state), run(variant, two, tmp_path / "b", 0, evals=130, resume=True))


@cases(CORE)
def test_the_start_mapping_is_measured_first(case, tmp_path):
    variant, problem = case
    drawn = sample_uniformly(problem, np.array([3], np.uint64))
    start = repair(problem, drawn, np.zeros(1, np.uint64))
    archive, _, _ = run(variant, problem, tmp_path / "r", 1, start=start[0])
    assert archive.sources(slice(1)) == ["start"]
    expected = problem.evaluate(start, np.zeros(1, np.uint64))
    np.testing.assert_array_equal(archive.mappings(np.array([0])), expected.repaired)


@cases(FEW, quick=LOOP)
def test_failed_measurements_end_nothing_and_are_never_champions(case, tmp_path):
    variant, problem = case
    archive, _, state = run(variant, problem, tmp_path / "r", 4, executor=Failing)
    assert len(archive) == 4 * GENERATION
    assert (archive.column("status")[:] == Status.FAILED).sum() == 56
    assert state.champions[0] is None or state.champions[0].ticket % 3 == 0


def test_a_method_says_why_it_cannot_serve_a_problem():
    assert "graph" in str(find_method("egrl").serves(problem("toy-grammar")))
    assert "derivation" in str(find_method("random-plans").serves(problem("toy-ragged")))
    assert find_method("random").serves(problem("toy-grammar")) is None
