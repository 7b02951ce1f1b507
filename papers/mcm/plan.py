"""What is run for the MCM partitioning paper: graphs, variants of searches, pre-trainings, budgets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from egrl.methods.ppo.learner import PAPER
from workloads.zoo.mcm87 import split

STARTING_S = 4.0
"""Seconds of a run that are not its search."""


@dataclass(frozen=True)
class Variant:
    """One way to search.

    Attributes:
        method: its name; settings: its own and the problem's, as `egrl compare --set` takes them.
        init: label of POLICIES that it begins with (the best to go on from; followed by "zero-shot" the best with no
            training), or "" for none.
        second_s: about how many seconds an evaluation takes, on `bert_large` `longer` times as many.
    """

    method: str
    settings: tuple[str, ...] = ()
    init: str = ""
    second_s: float = 0.003
    longer: int = 3


UNINFORMED = {"network.slope": 0.0, "outset": "nothing"}
"""Settings of our agent where it does not know, before any learning, how a pipeline lies evenly."""
POLICIES: dict[str, tuple[str, dict[str, Any]]] = {
    "rl": ("ppo", PAPER),
    "ppo": ("ppo", {}),
    "uninformed": ("ppo", UNINFORMED),
    "es": ("es", {}),
}
"""Label of a pre-training -> method and its settings."""


def _told(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Settings of PPO as `--set` takes them."""
    return tuple(f"ppo.{k}={str(v).lower() if isinstance(v, bool) else v}" for k, v in settings.items())


_PAPER, _UNINFORMED, _FROZEN = _told(PAPER), _told(UNINFORMED), ("ppo.learner.epochs=0",)
_SAMPLE, _ALONE = ("ppo.draw=problem",), ("problem.solver=false",)
_ONE_NUMBER = ("egrl.profile_model.use=off", "egrl.readout=greedy")
"""Of a partition `egrl` is told its throughput, as all others are, and no loads. Its networks name chips, as those that
`es` trains: what ranking is worth is in `benchmarks/placing_chips.py`."""
_LARGE = (0.06, 20)
"""`second_s` and `longer` of the paper's agent, whose network is large."""
VARIANTS: dict[str, Variant] = {
    "rl": Variant("ppo", _PAPER, "", *_LARGE),
    "rl-finetuned": Variant("ppo", _PAPER, "rl", *_LARGE),
    "rl-zeroshot": Variant("ppo", (*_PAPER, *_FROZEN), "rl zero-shot", *_LARGE),
    "rl-sample": Variant("ppo", (*_PAPER, *_SAMPLE), "", *_LARGE),
    "rl-alone": Variant("ppo", (*_PAPER, *_ALONE), "", *_LARGE),
    "ppo": Variant("ppo", second_s=0.01),
    "ppo-finetuned": Variant("ppo", init="ppo", second_s=0.01),
    "ppo-zeroshot": Variant("ppo", _FROZEN, "ppo zero-shot"),
    "ppo-frozen": Variant("ppo", _FROZEN),
    "ppo-sample": Variant("ppo", _SAMPLE, second_s=0.01),
    "uninformed": Variant("ppo", _UNINFORMED, second_s=0.01),
    "uninformed-finetuned": Variant("ppo", _UNINFORMED, "uninformed", 0.01),
    "uninformed-zeroshot": Variant("ppo", (*_UNINFORMED, *_FROZEN), "uninformed zero-shot"),
    "random": Variant("random"),
    "sa": Variant("annealing", ("annealing.space=distributions",)),
    "annealing": Variant("annealing"),
    "egrl": Variant("egrl", _ONE_NUMBER, second_s=0.01),
    "egrl-finetuned": Variant("egrl", _ONE_NUMBER, "es", 0.01),
}
"""Label -> what it is; the first is what the others are held against: `rl` is the paper's agent, `ppo` ours."""
AGENTS = {"rl": "the paper's agent, `rl`", "ppo": "ours, `ppo`"}
"""Those that the paper's claims are asked of, and what they are."""
TUNED = {
    "rl": "rl-finetuned",
    "ppo": "ppo-finetuned",
    "uninformed": "uninformed-finetuned",
    "egrl": "egrl-finetuned",
}
"""What begins from scratch -> the same with a pre-trained policy."""
ON_TEST, ON_HELD_OUT = "test", "held-out"


@dataclass(frozen=True)
class Searches:
    """What every variant does on some graphs.

    Attributes:
        where: `ON_TEST` or `ON_HELD_OUT`.
        graphs: searched one by one.
        evaluations, seeds: of the runs on each.
        budget: evaluations within the fixed budget of time.
    """

    where: str
    graphs: tuple[str, ...]
    evaluations: int
    seeds: int
    budget: int


@dataclass(frozen=True)
class Plan:
    """What is run.

    Attributes:
        training, validation, test: graphs.
        held_out: graph that is measured on the device model.
        variants: labels of VARIANTS; the first is what the others are held against.
        policies: labels of POLICIES, those that variants begin with.
        gens, save_every: of the pre-trainings: generations of 21 samples, and those between checkpoints.
        validation_evaluations: with which each checkpoint goes on on each validation graph.
        test_evaluations, held_out_evaluations: of each run.
        seeds: of each run on a test graph; the graphs are the units.
        held_out_seeds: of each run on the held-out graph; the runs are the units.
        samples: partitions of Figure 7.
        sample_s, budget_s: seconds of the simulated clock that a sample takes on hardware, and of the fixed budget.
    """

    training: tuple[str, ...] = split().training
    validation: tuple[str, ...] = split().validation
    test: tuple[str, ...] = split().test
    held_out: str = "bert_large"
    variants: tuple[str, ...] = tuple(VARIANTS)
    policies: tuple[str, ...] = tuple(POLICIES)
    gens: int = 1000
    save_every: int = 5
    validation_evaluations: int = 42
    test_evaluations: int = 504
    held_out_evaluations: int = 798
    seeds: int = 2
    held_out_seeds: int = 5
    samples: int = 2000
    sample_s: float = 26.97
    budget_s: float = 600.0

    def on(self, where: str) -> Searches:
        """The searches on the test graphs, or on the held-out graph."""
        graphs, evaluations, seeds = (
            (self.test, self.test_evaluations, self.seeds)
            if where == ON_TEST
            else ((self.held_out,), self.held_out_evaluations, self.held_out_seeds)
        )
        budget = min(evaluations, max(1, int(self.budget_s / self.sample_s)))
        return Searches(where, graphs, evaluations, seeds, budget)

    @staticmethod
    def quick() -> Plan:
        """Few graphs, briefly: it shows that and how it works, not what it reaches."""
        return replace(
            Plan(),
            training=("resnet18", "mobilenet_v3_small", "squeezenet1_1", "text_cnn", "gru_lm", "ncf"),
            validation=("resnet34",),
            test=("mobilenet_v1", "crnn", "vdcnn"),
            held_out="bert",
            gens=30,
            validation_evaluations=21,
            test_evaluations=84,
            held_out_evaluations=84,
            held_out_seeds=2,
            samples=200,
            variants=tuple(label for label in VARIANTS if not label.startswith("uninformed")),
            policies=("rl", "ppo", "es"),
        )
