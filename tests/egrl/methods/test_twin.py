"""The twin: what it infers from measurements, what it proposes, and how far it comes on boards."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import egrl
from egrl.methods.manager import Credit
from egrl.methods.twin.data import MOST, gather, thin
from egrl.methods.twin.inference import Beliefs, Inference, Posterior, Scales, fit
from egrl.methods.twin.proposer import SOURCES, Proposer, TwinConfig
from egrl.runs.checkpoint import dumps, loads
from egrl.runs.past_run import PastRun
from hwsim.family import Model
from hwsim.mcm.config import McmConfig
from hwsim.mcm.package import load_package
from hwsim.mcm.problem import McmProblem
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.family.family import NnpiFamily
from hwsim.nnpi.problem import NnpiProblem
from workloads.load import load

Board = Callable[[np.ndarray], float]
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def problem() -> NnpiProblem:
    return NnpiProblem(load("resnet50"), load_chip("nnpi"))


@pytest.fixture(scope="module")
def family(problem: NnpiProblem) -> NnpiFamily:
    return problem.family


def mappings(problem: NnpiProblem, count: int, seed: int) -> np.ndarray:
    """Different valid mappings near the rules."""
    rng = np.random.default_rng(seed)
    rules = list(problem.baseline.rules().values())
    rows = np.stack([rules[k % len(rules)] for k in range(count)])
    changed = np.where(rng.random(rows.shape) < 0.1, rng.integers(0, 3, rows.shape), rows)
    return problem.rectify(changed.astype(np.int16))


def truth(family: NnpiFamily, seed: int, effects: frozenset[str] | None = None) -> Model:
    theta = np.random.default_rng(seed).normal(0.0, 1.0, len(family.parameters))
    return Model(family.nominal if effects is None else effects, theta)


def learn(family: NnpiFamily, rows: np.ndarray, cost: np.ndarray) -> Posterior:
    *_, posterior = fit(family, gather(family, rows, cost), Beliefs((family.nominal,)))
    assert isinstance(posterior, Posterior)
    return posterior


def board(problem: NnpiProblem, model: Model, noise: float, seed: int) -> Board:
    rng = np.random.default_rng(seed)

    def measure(mapping: np.ndarray) -> float:
        return float(problem.family.predict(model, mapping[None])[0] * np.exp(noise * rng.normal()))

    return measure


def test_it_predicts_mappings_that_were_not_measured_and_knows_how_well(problem, family):
    model = truth(family, 1)
    rows, unseen = mappings(problem, 80, 2), mappings(problem, 60, 3)
    noisy = family.predict(model, rows) * np.exp(0.01 * np.random.default_rng(4).normal(size=len(rows)))
    posterior = learn(family, rows, noisy)
    mean, doubt = posterior.predict(unseen)
    exact = np.log(family.predict(model, unseen))
    nominal = np.log(family.predict(Model(family.nominal, np.zeros(len(family.parameters))), unseen))
    assert np.sqrt(np.mean((mean - exact) ** 2)) < 0.4 * np.std(nominal - exact)
    share = np.mean(np.abs(mean - exact) < 2 * doubt)
    assert share > 0.8
    assert 0.003 < posterior.scales.noise < 0.03


@pytest.mark.slow
def test_a_board_of_another_structure_is_not_taken_for_one_without_noise(problem, family):
    """Where mappings matter less than any model of the family says, the residual is large, and the noise as it is."""
    rows, unseen = mappings(problem, 120, 14), mappings(problem, 60, 15)
    model = Model(family.nominal, np.zeros(len(family.parameters)))
    exact = 0.3 * np.log(family.predict(model, rows))
    noisy = np.exp(exact + 0.01 * np.random.default_rng(16).normal(size=len(rows)))
    told = gather(family, rows, noisy)
    np.testing.assert_array_equal(told.residual_gram, gather(family, rows, np.exp(exact)).residual_gram)
    posterior = learn(family, rows, noisy)
    assert 0.006 < posterior.scales.noise < 0.02
    mean, doubt = posterior.predict(unseen)
    off = (mean - 0.3 * np.log(family.predict(model, unseen))) / doubt
    assert abs(np.mean(off)) < 1.0
    assert np.std(off) < 2.0


@pytest.mark.slow
@pytest.mark.parametrize("missing", [pytest.param("", marks=pytest.mark.exhaustive), "prefetch"])
def test_it_finds_the_effect_that_the_board_has_not(problem, family, missing):
    rows = mappings(problem, 100, 5)
    effects = family.nominal - {missing}
    cost = family.predict(truth(family, 6, effects), rows)
    posterior = learn(family, rows, cost * np.exp(0.005 * np.random.default_rng(7).normal(size=len(rows))))
    assert posterior.effects == effects


def test_samples_have_the_mean_and_the_spread_of_the_posterior(problem, family):
    rows, unseen = mappings(problem, 40, 8), mappings(problem, 10, 9)
    posterior = learn(family, rows, family.predict(truth(family, 10), rows))
    posterior.structures = posterior.structures[:1]
    rng = np.random.default_rng(11)
    near, models = posterior.near, [posterior.sample(rng) for _ in range(400)]
    _, slope = family.gradient(near.model, unseen)
    cost = family.predict(near.model, unseen)
    places = family.places(unseen)
    drawn = np.array(
        [
            np.log(cost) + slope @ (model.theta - near.model.theta) + places @ model.residual
            for model in models
        ]
    )
    mean, doubt = posterior.predict(unseen)
    # Samples do not hold what depends on the distance alone; its size is an upper limit of what they miss.
    slack = posterior.scales.discrepancy
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=3 * slack + 4 * doubt.max() / 20)
    assert (drawn.std(axis=0) < 1.3 * doubt + slack).all()


def test_the_mode_is_where_the_posterior_is_flat(problem, family):
    rows = mappings(problem, 30, 12)
    cost = family.predict(truth(family, 13), rows)
    inference, scales = Inference(family, gather(family, rows, cost)), Scales(noise=0.02)
    mode = inference.mode(family.nominal, [np.zeros(len(family.parameters))], scales)
    near = mode.near
    left = inference.data.log_cost - near.predicted
    inverse = np.linalg.inv(inference.unexplained(scales))

    def loss(theta: np.ndarray) -> float:
        at = inference.data.log_cost - np.log(family.predict(Model(family.nominal, theta), rows))
        return float(0.5 * at @ inverse @ at + 0.5 * np.sum(theta**2))

    assert loss(near.model.theta) < 0.2 * loss(np.zeros(len(near.model.theta)))
    rng = np.random.default_rng(14)
    for _ in range(20):
        step = 0.02 * rng.normal(size=len(near.model.theta))
        assert loss(near.model.theta + step) > loss(near.model.theta) - 0.02 * abs(loss(near.model.theta))
    assert np.abs(left).max() < 0.2
    assert abs(mode.evidence - inference.evidence(near, scales)) < 0.1
    again = inference.mode(family.nominal, [np.zeros(len(near.model.theta)), near.model.theta], scales)
    assert again.evidence > mode.evidence - 0.01  # from the better start


def test_evidence_where_no_mode_was_reached_counts_the_misfit(problem, family, monkeypatch):
    rows = mappings(problem, 30, 12)
    cost = family.predict(truth(family, 13), rows)
    inference, scales = Inference(family, gather(family, rows, cost)), Scales(noise=0.005, residual=0.01)
    start = [np.zeros(len(family.parameters))]
    reached = inference.mode(family.nominal, start, scales).evidence
    monkeypatch.setattr("egrl.methods.twin.inference.NEWTON_STEPS", 0)
    assert inference.mode(family.nominal, start, scales).evidence < reached - 100


# ---- profiles


def profiled(family: NnpiFamily, model: Model, rows: np.ndarray, spread: float, seed: int) -> np.ndarray:
    """Seconds of each op, with a profiler's noise."""
    took = family.part_times(model, rows).seconds
    return took * np.exp(spread * np.random.default_rng(seed).normal(size=took.shape))


def learn_parts(family: NnpiFamily, rows: np.ndarray, cost: np.ndarray, parts: np.ndarray) -> Posterior:
    beliefs = Beliefs((family.nominal,))
    for _ in range(2):
        *_, posterior = fit(family, gather(family, rows, cost, parts=parts), beliefs)
    assert isinstance(posterior, Posterior)
    return posterior


def off_by(posterior: Posterior, family: NnpiFamily, model: Model, rows: np.ndarray) -> float:
    return float(np.sqrt(np.mean((posterior.predict(rows)[0] - np.log(family.predict(model, rows))) ** 2)))


@pytest.mark.exhaustive
@pytest.mark.parametrize("missing", [0.0, 0.5])
def test_profiles_say_more_than_totals_in_the_mean_even_of_half_of_the_ops(problem, family, missing):
    rows, unseen = mappings(problem, 30, 22), mappings(problem, 60, 23)
    gains = []
    for seed in (21, 51, 61):
        model, rng = truth(family, seed), np.random.default_rng(24)
        cost = family.predict(model, rows) * np.exp(0.01 * rng.normal(size=len(rows)))
        parts = profiled(family, model, rows, 0.05, 25)
        parts[:, rng.random(parts.shape[1]) < missing] = np.nan
        found = learn_parts(family, rows, cost, parts)
        assert found.profiled
        assert 0.03 < found.scales.profile < 0.06
        totals = learn(family, rows, cost)
        gains.append(np.log(off_by(totals, family, model, unseen) / off_by(found, family, model, unseen)))
    assert np.mean(gains) > 0


def test_without_noise_the_mode_explains_every_op(problem, family):
    model = truth(family, 41)
    rows = mappings(problem, 12, 42)
    posterior = learn_parts(family, rows, family.predict(model, rows), profiled(family, model, rows, 0.0, 0))
    parts = posterior.near.parts
    assert np.median(np.abs(parts.left[parts.known])) < 0.003
    unknown = np.log(
        family.part_times(model, rows).seconds / family.part_times(nominal(family), rows).seconds
    )
    assert np.median(np.abs(unknown)) > 0.05


def nominal(family: NnpiFamily) -> Model:
    return Model(family.nominal, np.zeros(len(family.parameters)))


@pytest.mark.exhaustive
def test_ops_that_no_model_explains_do_not_drag_the_others_along(problem, family):
    model = truth(family, 26)
    rows, unseen = mappings(problem, 20, 27), mappings(problem, 40, 28)
    parts = profiled(family, model, rows, 0.02, 29)
    cost = family.predict(model, rows)
    plain = off_by(learn_parts(family, rows, cost, parts), family, model, unseen)
    rng = np.random.default_rng(30)
    odd = np.where(rng.random(parts.shape) < 0.5, 3.0, 1 / 3)
    wild = np.where(rng.random(parts.shape) < 0.05, odd * parts, parts)
    assert off_by(learn_parts(family, rows, cost, wild), family, model, unseen) < 2 * plain


def test_what_belongs_to_no_op_is_shared_out(family, problem):
    model = truth(family, 31)
    rows = mappings(problem, 12, 32)
    cost, parts = family.predict(model, rows), profiled(family, model, rows, 0.0, 0)
    found = gather(family, rows, 1.25 * cost, parts=parts).profiles
    np.testing.assert_allclose(np.exp(found.log_seconds).sum(axis=1), 1.25 * cost)
    parts[:, 0] = np.nan
    found = gather(family, rows, 1.25 * cost, parts=parts).profiles
    np.testing.assert_allclose(np.exp(found.log_seconds[:, 1:]), parts[:, 1:])
    assert gather(family, rows, cost, parts=np.full_like(parts, np.nan)).profiles is None


def test_a_family_that_knows_no_parts_leaves_profiles_alone():
    module = McmProblem(load("mobilenet_v2"), load_package("edge4"), McmConfig())
    rows = np.stack(list(module.baseline.rules().values()))
    found = module.evaluate(rows, np.zeros(len(rows), np.uint64))
    assert gather(module.family, rows, found.cost, parts=found.parts.astype(float)).profiles is None


@pytest.mark.slow
def test_samples_with_profiles_have_the_mean_and_the_spread_of_the_posterior(problem, family):
    model = truth(family, 33)
    rows, unseen = mappings(problem, 12, 34), mappings(problem, 25, 35)
    cost = family.predict(model, rows) * np.exp(0.01 * np.random.default_rng(36).normal(size=len(rows)))
    posterior = learn_parts(family, rows, cost, profiled(family, model, rows, 0.1, 37))
    posterior.structures = posterior.structures[:1]
    rng, near = np.random.default_rng(38), posterior.near
    drawn = np.array([posterior.sample(rng).theta for _ in range(400)])
    _, slope = family.gradient(near.model, unseen)
    doubt = np.sqrt(np.einsum("bp,pq,bq->b", slope, posterior.covariance(np.arange(slope.shape[1])), slope))
    spread = (drawn @ slope.T).std(axis=0)
    np.testing.assert_allclose(spread, doubt, rtol=0.2)
    mean = (drawn @ slope.T).mean(axis=0) - near.model.theta @ slope.T
    assert np.abs(mean / doubt).max() < 0.5


@pytest.mark.slow
def test_a_run_on_a_board_that_profiles_uses_it_and_goes_on_as_it_was(tmp_path):
    net = NnpiProblem(load("alexnet"), load_chip("nnpi"))
    model = truth(net.family, 40)
    number = {name: k for k, name in enumerate(net.space.labels[0])}

    def measured(rows):
        mapping = np.array(
            [[[number.get(row.get(head, ""), -1) for head in net.space.heads] for row in rows]]
        )
        took = net.family.part_times(model, mapping.astype(np.int16)).seconds[0]
        return {"latency_s": float(took.sum()), "op_seconds": took.tolist()}

    given = {"workload": "alexnet", "method": "twin", "settings": ["method.steps=300"]}
    egrl.search(**given, evals=44, out=tmp_path / "whole", evaluator=measured)
    egrl.search(**given, evals=30, out=tmp_path / "parts", evaluator=measured)
    egrl.search(resume=tmp_path / "parts", evals=44, evaluator=measured)
    whole, parts = (PastRun.read(tmp_path / name).evaluations() for name in ("whole", "parts"))
    np.testing.assert_array_equal(whole.mapping, parts.mapping)
    without = egrl.search(
        **{**given, "settings": ["method.steps=300", "method.profiles=false"]}, evals=44, evaluator=measured
    )
    assert without.summary["best"]["cost"] >= 0.999 * np.nanmin(whole.cost)


def test_thinning_keeps_the_best_half_and_an_even_choice_of_the_rest():
    cost = np.random.default_rng(0).random(1000)
    kept = thin(cost, MOST)
    assert len(kept) == len(set(kept.tolist())) == MOST
    assert set(np.argsort(cost)[: MOST // 2].tolist()) <= set(kept.tolist())
    assert (np.diff(kept) > 0).all()


@pytest.mark.slow
def test_of_many_measurements_only_the_fastest_are_predicted_anew(monkeypatch):
    monkeypatch.setattr("egrl.methods.twin.method.PREDICTED", 6)
    propose, known = Proposer.propose, []

    def counted(self, mapping, *rest):
        known.append(mapping)
        return propose(self, mapping, *rest)

    monkeypatch.setattr(Proposer, "propose", counted)
    result = egrl.search(
        "alexnet", method="twin", evals=45, settings=["method.steps=100"], bound_seconds=0.0, quiet=True
    )
    assert max(len(mapping) for mapping in known) == 6
    assert result.speedup > 1.0


def test_credit_follows_success_and_starves_nobody():
    credit = Credit.fresh(SOURCES)
    for _ in range(50):
        credit.count(["near", "mode", "sample", "rule"], [True, False, False, True])
    shares = credit.shares()
    assert shares[SOURCES.index("near")] > 0.6
    assert shares.min() > 0.05
    assert shares.sum() == pytest.approx(1.0)


def run(problem: NnpiProblem, measure: Board, evals: int, seed: int = 0) -> tuple[egrl.Search, list[str]]:
    search = egrl.Search(problem, method="twin", seed=seed, settings=["method.steps=1500"])
    sources: list[str] = []
    while search.evaluations < evals:
        batch = search.ask(limit=evals - search.evaluations)
        assert batch is not None
        sources += batch.source
        search.tell(batch, [measure(mapping) for mapping in batch.mapping])
    return search, sources


@pytest.mark.slow
def test_sixty_measurements_of_a_board_beat_every_rule_and_what_the_chip_file_likes():
    problem = NnpiProblem(load("resnet101"), load_chip("nnpi"))
    family = problem.family
    full = truth(family, 21, family.nominal - {"moves"})
    model = replace(full, theta=0.7 * full.theta)
    search, sources = run(problem, board(problem, model, 0.01, 22), 60)
    result = search.result()
    exact = family.predict(model, result.mapping[None])[0]
    rules = family.predict(model, np.stack(list(problem.baseline.rules().values())))
    likes = family.improve(
        Model(family.nominal, np.zeros(len(family.parameters))),
        problem.baseline.mapping,
        steps=20_000,
        hot=2e-3,
        key=1,
    )
    assert exact < 0.99 * rules.min()
    assert exact < family.predict(model, likes[None])[0]
    assert {"start", "rule", "nominal", "variant", *SOURCES} == set(sources)
    assert sources.index("variant") > sources.index("rule")


@pytest.mark.exhaustive
def test_measurements_that_fail_are_lived_with_and_kept_away_from(problem, family):
    model = truth(family, 23)
    plain = board(problem, model, 0.01, 24)
    heavy = int(np.argmax(problem.tables.weight_bytes))

    def measure(mapping: np.ndarray) -> float:
        return float("nan") if mapping[heavy, 0] == 1 else plain(mapping)

    failed: list[bool] = []
    search = egrl.Search(problem, method="twin", settings=["method.steps=500"])
    while search.evaluations < 60:
        batch = search.ask(limit=60 - search.evaluations)
        assert batch is not None
        told = [measure(mapping) for mapping in batch.mapping]
        failed += np.isnan(told).tolist()
        search.tell(batch, told)
    assert search.result().speedup >= 1.0
    assert np.isfinite(search.result().cost)


@pytest.mark.exhaustive
def test_on_the_device_model_it_learns_times_and_memory_of_a_module():
    """Sixty samples beat what the analytical model likes best, and what runs is known."""
    problem = McmProblem(load("bert"), load_package("mcm36"), McmConfig(model="device"))
    search = egrl.Search(problem, method="twin", settings=["method.candidates=60"], start="cold")
    speedup: list[float] = []
    mapping: list[np.ndarray] = []
    while len(speedup) < 60:
        batch = search.ask(limit=60 - len(speedup))
        assert batch is not None
        evaluation = problem.evaluate(batch.proposals.mapping, batch.key)
        search.tell(batch, evaluation)
        speedup += evaluation.speedup.tolist()
        mapping += list(evaluation.repaired)
    found, rows = np.array(speedup), np.stack(mapping)
    assert found[20:].max() > 1.01 * found[:20].max()
    assert (found[20:] > 0).mean() > 0.8
    known = problem.family.limits(rows[found > 0], rows[found == 0])
    assert known.probability(rows[found > 0]).mean() > 0.8


@pytest.mark.exhaustive
def test_on_a_board_that_repeats_itself_it_never_names_what_measured_worse(tmp_path):
    """The board is unlike any in the family, and has no noise: what does not fit must not be taken for noise."""
    result = egrl.search(
        "resnet18",
        chip="edge",
        method="twin",
        evals=63,
        evaluator=f"{sys.executable} {ROOT / 'examples' / 'board' / 'board.py'}",
        out=tmp_path,
    )
    best = result.history["best_speedup"].tolist()
    assert len(best) == 3
    assert best == sorted(best)
    lines = (tmp_path / "measurements.jsonl").read_text().splitlines()
    measured = [sample for line in lines for sample in json.loads(line)["latency_s"]]
    assert result.cost == min(measured)


def test_what_a_checkpoint_keeps_of_the_sizes_is_them_to_the_last_bit(problem):
    """From their logarithms they came back with other last bits, and a run that was killed ended otherwise."""
    proposers = [Proposer(problem, problem.family, TwinConfig(), None) for _ in range(2)]  # type: ignore[arg-type]
    rng, logs_lose = np.random.default_rng(0), 0
    for _ in range(50):
        scales = Scales(*rng.uniform(0.001, 1.0, 5).tolist())
        proposers[0].beliefs.scales = scales
        proposers[1].load_state_dict(loads(dumps(proposers[0].state_dict()), "state"))
        assert proposers[1].beliefs.scales == scales
        logs_lose += scales.with_logs(scales.logs()) != scales
    assert logs_lose > 0
