"""What is pre-trained, how long, and as which it is known again when it goes on."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from egrl.core import typed_tables
from egrl.core.budget import Budget
from egrl.core.recorder import POLICY_EVERY
from egrl.methods import find_method
from egrl.runs import folder as run_folder
from workloads.errors import InputError
from workloads.files import parse_toml, read_text

GENS = 1000
METHOD = "es"
"""Of a pre-training whose config names none."""
GOES_ON = {"es": "egrl"}
"""Methods whose policies others go on from, with their own settings; what the rest trained goes on as it was."""


@dataclass(frozen=True)
class PretrainOptions:
    """What is pre-trained, and how long.

    Attributes:
        workloads, validation: names or files; without validation, the training workloads choose.
        gens: generations, over all workloads together; None without `evals` and `seconds`: `GENS`.
        seconds: of training, instead of `gens`.
        seed: of everything random.
        problem, chip: as of `egrl run`.
        problem_settings, method_settings: KEY=VALUE of the problem and of the method.
        init: policy file to begin with.
        workers, threads, device: as of `egrl run`.
        save_every: generations between the policies that are saved, among which validation chooses.
        finetune: evaluations with which every saved policy goes on on each validation workload; 0: none.
        evals: evaluations, over all workloads together, instead of `gens`.
        chips_around: drawn chips around `chip` on which each workload is trained on, too.
    """

    workloads: tuple[str, ...]
    validation: tuple[str, ...] = ()
    gens: int | None = None
    seed: int = 0
    problem: str = "nnpi"
    chip: str = ""
    problem_settings: dict[str, Any] = field(default_factory=dict)
    method_settings: dict[str, Any] = field(default_factory=dict)
    init: str = ""
    workers: int = 1
    threads: int = 1
    device: str = "cpu"
    method: str = METHOD
    seconds: float | None = None
    save_every: int = POLICY_EVERY
    finetune: int = 0
    evals: int | None = None
    chips_around: int = 0

    @property
    def budget(self) -> Budget:
        """What may be spent."""
        if self.seconds is not None:
            return Budget(None, self.seconds)
        if self.evals is not None:
            return Budget(self.evals, None)
        return Budget.of_generations(self.gens or GENS)


FREE = ("gens", "evals", "seconds", "workers", "validation", "finetune")
"""Options that may change when a pre-training goes on: a larger budget, and what changes no policy."""


def method_settings_of(options: PretrainOptions) -> dict[str, Any]:
    """The method's settings that are not its defaults."""
    return {**find_method(options.method).pretraining, **options.method_settings}


def to_toml(options: PretrainOptions) -> str:
    """What config.toml holds."""
    import tomli_w

    return tomli_w.dumps({"kind": "pretraining", "version": 1, "options": plain(options)})


def plain(options: PretrainOptions) -> dict[str, Any]:
    """The options as files hold them: lists, and only what is given."""
    limited = options.evals is not None or options.seconds is not None
    given = {**asdict(options), "gens": None if limited else options.budget.generations}
    if not options.chips_around:
        del given["chips_around"]
    return {key: list(v) if isinstance(v, tuple) else v for key, v in given.items() if v is not None}


def fixed_options(options: PretrainOptions) -> dict[str, Any]:
    """Option, or dotted key of settings -> value, of all that may not change when a pre-training goes on."""
    return typed_tables.dotted_keys({key: v for key, v in plain(options).items() if key not in FREE})


def check_same(options: PretrainOptions, out: Path) -> None:
    """InputError where the folder is not of this pre-training, or has gone further."""
    where = str(out / run_folder.CONFIG)
    document = parse_toml(read_text(where, "a config file"), where)
    if document.get("kind") != "pretraining" or not isinstance(document.get("options"), dict):
        found = "a run folder" if document.get("kind") == "config" else f"kind {document.get('kind')!r}"
        raise InputError(f"--out {out}: expected a new folder or a pre-training, found {found}")
    old = {"method": METHOD, "save_every": POLICY_EVERY, **document["options"]}
    new = parse_toml(to_toml(options), where)["options"]
    for key in dict.fromkeys([*plain(options), *old]):
        if key not in FREE and old.get(key) != new.get(key):
            raise InputError(
                f"--out {out}: {key}: expected {new.get(key)!r} as in this command, found {old.get(key)!r};"
                " take another --out"
            )
