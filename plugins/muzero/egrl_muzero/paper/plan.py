"""What is run for the MMapGame paper: programs, methods, budgets, and the parts that are taken away."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from workloads.programs import program_names

AGENT = "muzero"
REVISE = "revise"
"""The rival that does nothing but what revises the agent's best games."""
WITHOUT_REVISION = (f"{AGENT}.imitations=0", f"{AGENT}.revise.moves=0")
UNTAUGHT = (f"{AGENT}.ablation=no-learning", f"{AGENT}.value_scale=0.1")
"""What is searched by the rules does not err, and deserves more trust than the default gives to learned values."""
FULL, UNREVISED = "full agent", "no-revision"
"""The agent, and the agent without what the paper's does not have, revisions and imitations; both are run on all
programs of Table 2."""
ABLATIONS = {
    "no-learning": (*UNTAUGHT, *WITHOUT_REVISION),
    "no-search": (f"{AGENT}.ablation=no-search",),
    "revisions alone": (
        *UNTAUGHT,
        f"{AGENT}.slots=2",
        f"{AGENT}.chunk=4",
        f"{AGENT}.revise.moves=20000",
    ),
}
"""Settings of the agent without some of its parts: the first two are those of Figure 7, and revise nothing; the last
does hardly anything but revise: nothing is learned, and hardly a move is planned."""
OTHERS = f"{UNREVISED}-others"
"""Folder of the agent's runs without revisions on programs that are not ablated."""
STARTING_S = 15.0
"""Seconds of a run that are not its search."""


@dataclass(frozen=True)
class Plan:
    """What is run.

    Attributes:
        programs: of Table 2 and Figure 5.
        methods: each in the same seconds, the agent among them; the others are the paper's rivals,
            and `revise`, which the paper does not have.
        seconds: of searching, a run.
        threads: of each run; one is what rivals without a learner can use.
        seeds: of each run; unrevised_seeds: of the agent without revisions on programs that are not `ablated`.
        settings: as `egrl compare --set` takes them. One random network may choose the same action everywhere,
            whatever little is added to its weights, so that ES begins with the best of several. The agent's hold
            wherever it is run.
        bound_seconds: limit of each upper bound.
        ablated: of Figure 7, one of `programs`; its runs of the agent are those of Table 2.
        shown: of Figure 8, likewise.
        suite, suite_seconds: programs of Tables 3 to 5 and Figures 6 and 10, a run of the agent each, and its length.
        extremes: how many programs with the largest and the smallest speedups are looked at in Figure 6.
        training, validation, shared_seconds: of one agent for several programs.
        held_out, held_out_seconds: what that agent is placed on, and how long it then goes on.
    """

    programs: tuple[str, ...] = (
        "alexnet_train_batch_32",
        "wavenet_coherent_batch32",
        "alphatensor",
        "tensor2tensor_transformer_bf16",
    )
    methods: tuple[str, ...] = (AGENT, REVISE, "es", "random")
    seconds: float = 1800.0
    threads: int = 1
    seeds: int = 3
    unrevised_seeds: int = 1
    settings: tuple[str, ...] = ("es.scouts=20",)
    bound_seconds: float = 60.0
    ablated: str = "alexnet_train_batch_32"
    shown: str = "alexnet_train_batch_32"
    suite: tuple[str, ...] = field(default_factory=program_names)
    suite_seconds: float = 120.0
    extremes: int = 3
    training: tuple[str, ...] = (
        "alexnet_train_batch_32",
        "bert_base_inference",
        "gpt_decode_step",
        "inference_resnet",
        "rnn_2",
        "unet_train",
    )
    validation: tuple[str, ...] = ("inference_lstm",)
    shared_seconds: float = 1800.0
    held_out: tuple[str, ...] = ("dlrm_train", "mnasnet_b1_batch_128", "rnn_6", "vit_b16_inference_bf16")
    held_out_seconds: float = 300.0

    def __post_init__(self) -> None:
        """Raises ValueError where a setting changes the rules, which bounds and baselines would not know."""
        if rules := [setting for setting in self.settings if setting.startswith("problem.")]:
            raise ValueError(f"settings: expected settings of methods, received {rules[0]}")

    @property
    def others(self) -> tuple[str, ...]:
        """Programs of Table 2 that are not `ablated`."""
        return tuple(program for program in self.programs if program != self.ablated)

    def unrevised(self, program: str) -> tuple[str, int]:
        """The folder of the agent's runs without revisions on a program of Table 2, and how many there are."""
        if program == self.ablated:
            return folder_of(UNREVISED), self.seeds
        return OTHERS, self.unrevised_seeds

    @staticmethod
    def quick() -> Plan:
        """Small programs, briefly: it shows that and how it works, not what it reaches."""
        return replace(
            Plan(),
            programs=("dlrm_inference", "alexnet_train_batch_32"),
            seconds=36.0,
            seeds=2,
            settings=("es.scouts=20", "muzero.slots=16", "muzero.simulations=16"),
            bound_seconds=10.0,
            ablated="dlrm_inference",
            suite=(
                "alexnet_train_batch_32",
                "bert_base_inference",
                "dlrm_inference",
                "dlrm_train",
                "inference_resnet",
                "rnn_2",
            ),
            suite_seconds=20.0,
            training=("dlrm_inference", "alexnet_train_batch_32"),
            validation=(),
            shared_seconds=60.0,
            held_out=("rnn_2", "dlrm_train"),
            held_out_seconds=20.0,
        )


def folder_of(part: str) -> str:
    """Where the runs without a part are."""
    return "ablation/" + part.replace(", ", "-").replace(" ", "-")
