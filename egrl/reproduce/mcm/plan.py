"""What is run for the MCM partitioning paper: graphs, variants of searches, pre-trainings, budgets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from workloads.zoo.mcm87 import split

Say = Callable[[str], None]
STARTING_S = 4.0
"""Seconds of a run that are not its search."""


@dataclass(frozen=True)
class Variant:
    """One way to search.

    Attributes:
        method: its name; settings: as `egrl compare --set` takes them.
        init: label of POLICIES that it begins with (the best to go on from; followed by "zero-shot" the best with no
            training), or "" for none.
        second_s: about how many seconds an evaluation takes.
    """

    method: str
    settings: tuple[str, ...] = ()
    init: str = ""
    second_s: float = 0.003


PLAIN = {"network.slope": 0.0, "outset": "nothing"}
"""Settings of a policy that does not know, before any learning, how a pipeline lies evenly: as the paper's."""
POLICIES: dict[str, tuple[str, dict[str, Any]]] = {
    "ppo": ("ppo", {}),
    "plain": ("ppo", PLAIN),
    "es": ("es", {}),
}
"""Label of a pre-training -> method and its settings."""
_PLAIN = tuple(f"ppo.{key}={value}" for key, value in PLAIN.items())
_FROZEN = ("ppo.learner.epochs=0",)
VARIANTS: dict[str, Variant] = {
    "rl": Variant("ppo", second_s=0.01),
    "rl-finetuned": Variant("ppo", init="ppo", second_s=0.01),
    "rl-zeroshot": Variant("ppo", _FROZEN, "ppo zero-shot"),
    "rl-frozen": Variant("ppo", _FROZEN),
    "rl-sample": Variant("ppo", ("ppo.draw=problem",), second_s=0.01),
    "plain": Variant("ppo", _PLAIN, second_s=0.01),
    "plain-finetuned": Variant("ppo", _PLAIN, "plain", 0.01),
    "plain-zeroshot": Variant("ppo", (*_PLAIN, *_FROZEN), "plain zero-shot"),
    "random": Variant("random"),
    "sa": Variant("annealing", ("annealing.space=distributions",)),
    "annealing": Variant("annealing"),
    "egrl": Variant("egrl", second_s=0.01),
    "egrl-finetuned": Variant("egrl", init="es", second_s=0.01),
}
"""Label -> what it is; the first is what the others are held against."""
TUNED = {"rl": "rl-finetuned", "plain": "plain-finetuned"}
"""What begins from scratch -> the same with a pre-trained policy."""
ON_TEST, ON_HELD_OUT = "test", "held-out"


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
        seeds: of each run.
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
    seeds: int = 5
    samples: int = 2000
    sample_s: float = 26.97
    budget_s: float = 600.0

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
            seeds=2,
            samples=200,
        )
