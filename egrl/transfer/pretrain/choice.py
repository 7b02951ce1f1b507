"""Which of the policies that a pre-training saved is kept: the best on workloads that it did not see.

Source: "A Transferable Approach for Partitioning Machine Learning Models on Multi-Chip-Modules", section 4.3: the
checkpoint with the best zero-shot, or with the best fine-tuned performance.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from analysis.means import geometric_mean
from egrl.core import atomic, typed_tables
from egrl.core.budget import GENERATION
from egrl.methods import find_method
from egrl.problems import find_problem
from egrl.runs import folder as run_folder
from egrl.runs.policies import Step
from egrl.transfer import zero_shot as transfer
from egrl.transfer.pretrain import validation_worker
from egrl.transfer.pretrain.options import GOES_ON, PretrainOptions, method_settings_of, plain
from hwsim.problem import Problem
from workloads.files import read_bytes

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
        tuned = validation_worker.finetune(steps, judged_on, trial, out, options.workers, quiet)
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
        "chosen": {"generation": steps[best].generation, "speedup": means[best]},
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
