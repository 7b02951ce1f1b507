"""Which of the policies that a pre-training saved is kept: the best on workloads that it did not see.

Source: "A Transferable Approach for Partitioning Machine Learning Models on Multi-Chip-Modules", section 4.3: the
checkpoint with the best zero-shot, or with the best fine-tuned performance.

The validation worker of a pre-training: what each saved policy reaches on other workloads when it goes on there.

Source: "A Transferable Approach for Partitioning Machine Learning Models on Multi-Chip-Modules", section 4.3.

Deviations:
- It works when training has ended, on the policies of all checkpoints in as many processes as there are workers, not
  beside the training: what it finds changes no policy.
- The paper does not say how long a policy is fine-tuned on the validation graphs; `evaluations` says it here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from analysis.intervals import interval_of
from analysis.transfer import geometric_mean
from egrl.core import atomic, typed_tables
from egrl.core.archive import Archive
from egrl.core.contracts import GENERATION, POLICY_EVERY, Budget
from egrl.core.flow import Flow, one_thread
from egrl.core.interrupts import Interrupted, leave_to_parent
from egrl.core.method import Context
from egrl.measure.local import InProcess
from egrl.methods import find_method
from egrl.problems import find_problem
from egrl.runs import folder as run_folder
from egrl.transfer import zero_shot as transfer
from egrl.transfer.zero_shot import Step
from hwsim.capabilities import shipped_cost
from hwsim.problem import Problem, Status
from workloads.errors import InputError, RunFailure
from workloads.files import no_link, parse_toml, read_bytes, read_text
from workloads.zoo.mcm87 import family_of

CHOSEN = "policy.safetensors"
"""The policy that is best with no training."""
CHOSEN_FINETUNED = "policy-finetune.safetensors"
"""The policy that is best to go on from, where that was tried."""
POLICIES_ALONE = {"profile_model.use": "off"}
"""A search that judges policies goes on without the profile model, whose finds would hide what policies differ in."""


def choose(
    options: PretrainOptions,
    out: Path,
    training: Sequence[Problem],
    unseen: Sequence[Problem],
    evaluations: int,
    seconds: float,
    quiet: bool,
) -> dict[str, Any]:
    """Place every saved policy on the validation workloads, go on there where that is asked, and keep the best.

    `evaluations` and `seconds` are what the training spent.
    """
    steps = tuple(
        Step(generation, min(generation * GENERATION, evaluations), path)
        for generation, path in run_folder.policies_in(out).items()
        if options.budget.generations is None or generation <= options.budget.generations
    )
    judged_on = list(unseen or training)
    own: Any = typed_tables.build(
        find_method(options.method).config, method_settings_of(options), "--set method"
    )
    policies = transfer.load(steps, [text for _, text, _ in typed_tables.code_settings(own)])
    found = {
        problem.about.workload: transfer.place(policies, problem).speedup
        for problem in dict.fromkeys([*training, *judged_on])
    }
    means = [
        float(geometric_mean([found[problem.about.workload][k] for problem in judged_on]))
        for k in range(len(steps))
    ]
    best = max(range(len(steps)), key=lambda k: means[k])
    goes_on = _goes_on(options)
    tuned: list[dict[str, float]] = []
    if options.finetune:
        settings = (POLICIES_ALONE if goes_on["method"] == "egrl" else {}) | goes_on["settings"]
        trial = {**goes_on, "settings": settings, "evaluations": options.finetune, "seed": options.seed}
        tuned = finetune(steps, judged_on, trial, out, options.workers, quiet)
    tuned_means = [float(geometric_mean(list(reached.values()))) for reached in tuned]
    best_tuned = max(range(len(tuned)), key=lambda k: tuned_means[k], default=best)
    chip_file = find_problem(options.problem).chip_file
    document = {
        "kind": "pretraining",
        "version": 1,
        "options": plain(options),
        "goes_on": goes_on,
        "trained_on": [problem.about.workload for problem in training],
        "chosen_on": [problem.about.workload for problem in judged_on],
        "problem": options.problem,
        "rival": training[0].about.baseline_name,
        "settings": options.problem_settings,
        "chip_file": chip_file and str(Path("inputs") / "0" / chip_file),
        "seconds": round(seconds, 3),
        "evaluations": steps[-1].evaluations,
        "steps": _rows(steps, means, found, tuned, tuned_means),
        "chosen": {
            "generation": steps[best].generation,
            "speedup": means[best],
            **_over_families(judged_on, {p.about.workload: found[p.about.workload][best] for p in judged_on}),
        },
    }
    atomic.write(out / CHOSEN, read_bytes(steps[best].path, "a policy file"))
    if tuned:
        document["chosen_finetuned"] = {
            "generation": steps[best_tuned].generation,
            "speedup": tuned_means[best_tuned],
            "evaluations": options.finetune,
            "settings": trial["settings"],
        }
        atomic.write(out / CHOSEN_FINETUNED, read_bytes(steps[best_tuned].path, "a policy file"))
    atomic.write(out / run_folder.PRETRAINING, json.dumps(document, indent=1, allow_nan=False) + "\n")
    return document


def _over_families(problems: Sequence[Problem], speedup: Mapping[str, float]) -> dict[str, Any]:
    """What speedups of workloads say of networks of other families.

    families: their number; interval: the 95 % interval of the geometric mean over families (ResNets are one), None for
    one family or where a policy placed nothing; share: the part of the logarithm of what the best known mappings gain
    that the policy gains, None where none is known.
    """
    import numpy as np

    logs: dict[str, list[float]] = {}
    gained, known = 0.0, 0.0
    for problem in problems:
        value = speedup[problem.about.workload]
        own = float(np.log(value)) if value > 0 else -np.inf
        logs.setdefault(family_of(problem.about.workload), []).append(own)
        best = shipped_cost(problem)
        if best is not None and np.isfinite(own):
            gained, known = gained + own, known + float(np.log(problem.baseline.cost / best))
    means = np.array([np.mean(own) for own in logs.values()])
    interval = None
    if len(means) > 1 and np.isfinite(means).all():
        found = interval_of(float(means.mean()), float(means.std(ddof=1)), len(means))
        interval = [float(np.exp(found.low)), float(np.exp(found.high))]
    share = gained / known if known > 0 else None
    return {"families": len(means), "interval": interval, "share": share}


def _rows(
    steps: Sequence[Step],
    means: Sequence[float],
    found: Mapping[str, Sequence[float]],
    tuned: Sequence[Mapping[str, float]],
    tuned_means: Sequence[float],
) -> list[dict[str, Any]]:
    """One row per saved policy: what it reaches with no training and, where that was tried, after going on."""
    rows: list[dict[str, Any]] = [
        {
            "generation": step.generation,
            "evaluations": step.evaluations,
            "chosen_on": mean,
            "speedup": {name: values[k] for name, values in found.items()},
        }
        for k, (step, mean) in enumerate(zip(steps, means, strict=True))
    ]
    for row, mean, reached in zip(rows, tuned_means, tuned, strict=False):
        row |= {"finetuned_on": mean, "finetuned": reached}
    return rows


def _goes_on(options: PretrainOptions) -> dict[str, Any]:
    """The method that goes on from the policies, and its settings."""
    if options.method in GOES_ON:
        # The policies fit a method with the same network only.
        network = {key: v for key, v in options.method_settings.items() if key.split(".")[0] == "network"}
        return {"method": GOES_ON[options.method], "settings": network}
    return {"method": options.method, "settings": method_settings_of(options)}


GENS = 1000
METHOD = "es"
"""The method of a pre-training whose config names none."""
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
    old = document["options"]
    new = parse_toml(to_toml(options), where)["options"]
    for key in dict.fromkeys([*plain(options), *old]):
        if key not in FREE and old.get(key) != new.get(key):
            raise InputError(
                f"--out {out}: {key}: expected {new.get(key)!r} as in this command, found {old.get(key)!r};"
                " take another --out"
            )


RECORD = "validation.jsonl"
"""A line for each policy that went on on a workload: generation, fingerprint, evaluations, speedup."""


@dataclass(frozen=True)
class Trial:
    """One policy that goes on on one problem: with a method, its settings, a number of evaluations and a seed."""

    generation: int
    path: Path
    method: str
    settings: Mapping[str, Any]
    evaluations: int
    seed: int


def best_speedup(trial: Trial, problem: Problem) -> float:
    """The best speedup of a short search that begins with the policy, cold; 0 where nothing ran."""
    from policies.store import load_policy

    definition = find_method(trial.method)
    own: Any = typed_tables.build(definition.config, dict(trial.settings), "--set method")
    archive = Archive([problem])
    context = Context([problem], archive, trial.seed, [None], load_policy(trial.path), 1)
    flow = Flow(definition.build(context, own), InProcess([problem]), context, trial.evaluations)
    best = 0.0
    with one_thread():
        flow.start()
        while not flow.over:
            for _, found in flow.advance(trial.evaluations):
                ran = (found.status == Status.OK) & ~found.partial
                best = max(best, float(found.speedup[ran].max(initial=0.0)))
    return best


def finetune(
    steps: Sequence[Step],
    problems: Sequence[Problem],
    trial: Mapping[str, Any],
    folder: Path,
    workers: int,
    quiet: bool,
) -> list[dict[str, float]]:
    """What each policy reaches on each problem: workload -> speedup, a policy each. What is recorded is not done again.

    Args:
        steps: the policies.
        problems: of different workloads.
        trial: method, settings, evaluations and seed of every `Trial`.
        folder: of the pre-training; keeps the record.
        workers: processes.
        quiet: no progress.

    Raises:
        InputError: the record is damaged.
        Interrupted: the user stopped it; the same call goes on.
        RunFailure: a process died, or the disk refuses.
    """
    from tqdm import tqdm

    evaluations = int(trial["evaluations"])
    known = _read(folder / RECORD, evaluations)
    prints = {problem.fingerprint(): problem for problem in problems}
    missing = [
        (Trial(step.generation, step.path, **trial), fingerprint)
        for step in steps
        for fingerprint in prints
        if (step.generation, fingerprint) not in known
    ]
    bar = tqdm(total=len(missing), desc="validation", unit="search", disable=quiet or not missing)
    try:
        with bar:
            for one, name, speedup in _search(missing, prints, workers):
                known[one.generation, name] = speedup
                _append(folder / RECORD, one, name, speedup)
                bar.update()
    except KeyboardInterrupt:
        raise Interrupted(folder, None, again="the same command goes on") from None
    except (OSError, RuntimeError) as error:
        raise RunFailure(f"validation of {folder}: {error}") from error
    return [{p.about.workload: known[step.generation, name] for name, p in prints.items()} for step in steps]


def _search(
    missing: Sequence[tuple[Trial, str]], problems: Mapping[str, Problem], workers: int
) -> Iterator[tuple[Trial, str, float]]:
    """Trials with the fingerprints of their problems and what they reached, as they end."""
    if workers == 1 or not missing:
        for one, name in missing:
            yield one, name, best_speedup(one, problems[name])
        return
    with ProcessPoolExecutor(workers, get_context("spawn"), initializer=leave_to_parent) as pool:
        waiting = {pool.submit(best_speedup, one, problems[name]): (one, name) for one, name in missing}
        try:
            while waiting:
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    yield *waiting.pop(future), future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _append(path: Path, trial: Trial, fingerprint: str, speedup: float) -> None:
    line = {
        "generation": trial.generation,
        "fingerprint": fingerprint,
        "evaluations": trial.evaluations,
        "speedup": speedup,
    }
    try:
        with open(path, "a", encoding="utf-8", opener=no_link) as file:
            file.write(json.dumps(line, allow_nan=False) + "\n")
    except OSError as error:
        raise atomic.disk_failure(path, error) from error


def _read(path: Path, evaluations: int) -> dict[tuple[int, str], float]:
    """Speedups by generation and fingerprint. A last line that was cut off is dropped from the file."""
    if not path.is_file():
        return {}
    found, kept = {}, []
    lines = read_text(str(path), "a record of validation").splitlines()
    for number, text in enumerate(lines, 1):
        try:
            line = json.loads(text)
            key, speedup = (int(line["generation"]), str(line["fingerprint"])), float(line["speedup"])
            if line["evaluations"] == evaluations:
                found[key] = speedup
        except (ValueError, KeyError, TypeError) as error:
            if number == len(lines):
                break
            raise InputError(f"{path}: line {number}: expected a record of validation: {error}") from error
        kept.append(text)
    if len(kept) < len(lines):
        atomic.write(path, "".join(text + "\n" for text in kept))
    return found
