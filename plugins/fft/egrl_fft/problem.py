"""FFT plans as a problem: which plan of the grammar does a DFT of N points in the least time on this machine."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray
from typing_extensions import Doc

from egrl_fft.default import default_plan
from egrl_fft.derivation import PART, PlanGraph
from egrl_fft.files import run_files
from egrl_fft.grammar import Plan
from egrl_fft.judge import judge
from egrl_fft.notation import parse, tree
from egrl_fft.race import PlanRace
from hwsim.mappings import independent_sample
from hwsim.problem import About, Baseline, Evaluation, Keys, Mapping16, Status, Violation
from hwsim.sections import Section, Trees
from hwsim.space import Space, check_keys
from workloads.errors import InputError


@dataclass(frozen=True)
class FftConfig:
    """Settings of the problem."""

    cost: Annotated[
        Literal["measured", "model"],
        Doc(
            '"measured": seconds on this machine; "model": a count of instructions and moves, always the same'
        ),
    ] = "measured"
    cache: Annotated[
        bool,
        Doc(
            "if true, measured costs are kept on disk, and a plan that an earlier run on this machine"
            " measured is not measured again"
        ),
    ] = True
    give_up: Annotated[
        float,
        Ge(1),
        Doc(
            "a measurement ends early if the plan takes so many times as long as the best of its size so far"
        ),
    ] = 3.0
    leftmost: Annotated[
        bool,
        Doc("if true, the derivation expands the leftmost sub-problem first and is a tree; if false, any"),
    ] = False

    @property
    def measured(self) -> bool:
        """Whether costs are seconds that were measured."""
        return self.cost == "measured"


class FftProblem:
    """Plans for DFTs of N points (`Problem` of hwsim/problem.py).

    mapping   int16 [N, 1]: the rule at each step of a leftmost derivation, -1 for steps that the plan does not need;
              a number counts modulo the rules at its step, so that every mapping is a plan
    cost      seconds of one DFT, measured once per plan (`cache`); with `cost = "model"` what `egrl_fft/model.py`
              counts. Keys are ignored, since the noise of a machine is no function of them
    reward    (baseline cost / cost)^2; the baseline is the default plan

    A mapping that begins with -2 or less is a plan of a part (`PlanGraph`): it is `partial`, and evaluated against the
    default plan of that part. For a part of M points, one call measures N / M DFTs: the whole has that many, and for a
    single one the time of the call would hide that of the plan.

    Attributes:
        derivation: the grammar as a graph.
        race: if costs are measured, the fastest plans of a run, measured again in turn.
    """

    def __init__(self, size: int, config: FftConfig | None = None) -> None:
        """Measure the default plan.

        Raises:
            InputError: `cost` is unknown, or the default plan cannot be run.
        """
        self.config = config or FftConfig()
        if self.config.cost not in ("measured", "model"):
            raise InputError(f"problem.cost: expected measured or model, found {self.config.cost!r}")
        self.size = size
        self.derivation = PlanGraph(size, self.config.leftmost)
        steps, rules = self.derivation.steps, self.derivation.most_rules
        plan = default_plan(size)
        self.about = About(
            "fft",
            f"dft-{size}",
            "host",
            baseline_name="the default plan",
            evaluated="plans",
            measured=self.config.measured,
            alike=False,
        )
        self.space = Space(
            [f"step{step}" for step in range(steps)],
            ("rule",),
            np.full((steps, 1), rules, np.int16),
            choice_rank=np.zeros((1, rules), np.float32),
            initial=self.derivation.encode(plan),
        )
        if self.config.measured:
            self.race = PlanRace(size, self.derivation)
        self._seconds: dict[str, float] = self._kept()
        self._best: dict[int, float] = {}
        self.baseline = Baseline(self.space.initial, self.seconds(plan), "default plan")
        if not math.isfinite(self.baseline.cost):
            raise InputError(
                f"workload {self.about.workload}: expected a size whose default plan can be run, found {plan}"
            )

    def seconds(self, plan: Plan) -> float:
        """The cost of a complete plan of any size; NaN if it cannot be run."""
        text = str(plan)
        if text not in self._seconds:
            self._seconds[text] = self._price(plan, text)
        found = self._seconds[text]
        if math.isfinite(found):
            self._best[plan.size] = min(found, self._best.get(plan.size, math.inf))
        return found

    def _kept(self) -> dict[str, float]:
        """The seconds that earlier runs measured, by the text of the plan."""
        if not self.about.measured or not self.config.cache:
            return {}
        from egrl_fft import costs

        return costs.known(self.size)

    def _price(self, plan: Plan, text: str) -> float:
        if self.config.cost == "model":
            from egrl_fft import model

            return model.seconds(plan)
        from egrl_fft import costs, measured

        limit_s = self.config.give_up * self._best.get(plan.size, math.inf)
        try:
            found = measured.seconds(plan, max(1, self.size // plan.size), limit_s)
        except (InputError, MemoryError):
            return float("nan")
        if self.config.cache:
            costs.keep(self.size, text, found)
        return found

    def plan_text(self, mapping: Mapping16) -> str:
        """The plan of one mapping int16 [N, 1], as it is written."""
        return str(self.derivation.decode(mapping))

    def read_plan(self, text: str, where: str) -> Mapping16:
        """The mapping int16 [N, 1] of the text of a plan. Raises InputError if it is no plan of this problem."""
        plan = parse(text, where)
        if plan.size != self.size:
            raise InputError(
                f"{where}: expected a plan for {self.size} points, found {text[:60]} for {plan.size}"
            )
        if "?" in str(plan):
            raise InputError(f"{where}: expected a complete plan, found {text[:60]!r}")
        return self.derivation.encode(plan)

    def sections(self, mapping: Mapping16) -> list[Section]:
        """The default plan and the plan of one mapping int16 [N, 1], as trees."""
        plans = {self.about.baseline_name: self.baseline.mapping, "the best": mapping}
        trees = {label: tree(self.derivation.decode(each)) for label, each in plans.items()}
        says = "How each transform is made of smaller ones, from the whole down to what is compiled."
        return [Trees("The plan", says, trees)]

    def evaluate(self, mapping: Mapping16, key: Keys) -> Evaluation:
        """Measure the plans of mappings int16 [B, N, 1]; keys uint64 [B].

        Raises:
            ValueError: where shape, dtype or a number is out of range.
        """
        repaired = self.repair(mapping, key)
        plans = [self.derivation.decode(row) for row in repaired]
        default = np.array([self._default_cost(plan.size) for plan in plans])
        cost = np.array([self.seconds(plan) for plan in plans])
        ran = np.isfinite(cost)
        partial = repaired[:, 0, 0] <= PART
        nothing = np.zeros(len(cost))
        return Evaluation.of_costs(
            cost, default, ran, repaired, nothing, otherwise=Status.FAILED, partial=partial
        )

    def _default_cost(self, size: int) -> float:
        return self.baseline.cost if size == self.size else self.seconds(default_plan(size))

    def sample(self, probabilities: NDArray[np.floating[Any]] | None, key: Keys) -> Mapping16:
        """Draw plans of the whole: probabilities [B, N, 1, C] of the rules at each step -> int16 [B, N, 1]."""
        return self.repair(independent_sample(self.space, probabilities, key), key)

    def repair(self, mapping: Mapping16, key: Keys) -> Mapping16:
        """The mappings [B, N, 1] with the numbers of rules that exist, and -1 if nothing is left open.

        Raises:
            ValueError: where shape, dtype or a number is out of range.
        """
        steps, rules, parts = self.derivation.steps, self.derivation.most_rules, len(self.derivation.parts)
        least = np.full((steps, 1), -1)
        least[0, 0] = -1 - parts
        if (
            not isinstance(mapping, np.ndarray)
            or mapping.dtype != np.int16
            or mapping.ndim != 3
            or mapping.shape[1:] != (steps, 1)
            or ((mapping < least) | (mapping >= rules)).any()
        ):
            raise ValueError(
                f"mapping: expected int16 [B, {steps}, 1] of -1..{rules - 1}, first from {-1 - parts}, "
                f"received {getattr(mapping, 'dtype', type(mapping).__name__)} {getattr(mapping, 'shape', '')}"
            )
        check_keys(key, len(mapping))
        graph = self.derivation
        rows = [graph.encode(graph.decode(row)) for row in mapping]
        return np.stack(rows) if rows else mapping.copy()

    def best_known(self) -> tuple[Mapping16 | None, str]:
        """The plan int16 [N, 1] that wisdom has, or why there is none.

        Raises:
            InputError: wisdom that cannot be read, or is of no use here.
        """
        from egrl_fft import wisdom

        try:
            file = wisdom.path()
            found = wisdom.read(file).get(self.size) if file.exists() else None
        except OSError as error:
            raise InputError(f"FFT wisdom cannot be read: {error}") from error
        if found is None:
            return None, f"wisdom ({file}) has no plan for {self.size} points"
        try:
            return self.derivation.encode(found.plan), ""
        except InputError as error:
            return None, f"wisdom ({file}) has {found.plan}: {error}"

    def judge(self, mapping: Mapping16) -> list[Violation]:
        """Violations of the plan of one mapping [N, 1], by code that shares nothing with `evaluate`."""
        plan = self.derivation.decode(mapping)
        return judge(str(plan), plan.size)

    def fingerprint(self) -> str:
        """Hex digest of size, settings, library version, and the machine."""
        return hashlib.sha256(json.dumps([asdict(self.config), dict(self.files())]).encode()).hexdigest()

    def files(self) -> Mapping[str, str]:
        """The size, and the machine on which it is measured, as text."""
        return run_files(self.size)
