"""Pre-training: one policy over many workloads, through the same loop, chosen on workloads that it did not see.

By default the method is `es` (`egrl/methods/es.py`): every network of a round is measured on every workload, and the
mean of the log speedups is what it climbs. All policies that
were saved on the way are then placed on the validation workloads (`egrl/transfer/validation.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from egrl.core import loop, typed_tables
from egrl.core.archive import Archive
from egrl.core.contracts import BUDGETS, Budget
from egrl.core.interrupts import HINT, Interrupted, StopSignal
from egrl.core.loop import SearchState
from egrl.core.method import Context, Method
from egrl.core.registry import MethodDefinition
from egrl.measure import local
from egrl.methods import find_method
from egrl.problems import find_problem
from egrl.runs import checkpoint, progress
from egrl.runs import folder as run_folder
from egrl.runs.config import MOST_WORKERS
from egrl.transfer.validation import (
    PretrainOptions,
    check_same,
    choose,
    fixed_options,
    method_settings_of,
    to_toml,
)
from hwsim.keys import MOST_SEED
from hwsim.problem import Problem
from workloads.errors import InputError
from workloads.text import repeated


def pretrain(options: PretrainOptions, out: Path, quiet: bool = True) -> dict[str, Any]:
    """Pre-train into a folder, or go on with what is there. Returns what pretraining.json holds.

    Raises:
        InputError: an option is wrong, or the folder holds another pre-training.
        Interrupted: the user stopped it; the same call goes on.
    """
    definition = _check(options)
    given, validation = (_problems(options, names) for names in (options.workloads, options.validation))
    _check_distinct(given, validation)
    training = [*given, *_on_drawn_chips(options)]
    reason = next((f"{p.about.workload}: {why}" for p in training if (why := definition.serves(p))), None)
    if reason is not None:
        raise InputError(f"--method {options.method} cannot serve problem {options.problem}: {reason}")
    method_config: Any = typed_tables.build(definition.config, method_settings_of(options), "--set method")
    typed_tables.check_code(method_config)
    init = None
    if options.init:
        from policies.shipped import policy_file
        from policies.store import load_policy

        init = load_policy(policy_file(options.init))
    archive = Archive(training)
    context = Context(
        training, archive, options.seed, [None] * len(training), init, options.threads, options.device
    )
    method = definition.build(context, method_config)
    begun = (out / run_folder.CONFIG).is_file()
    folder = run_folder.RunFolder.reopen(out) if begun else run_folder.RunFolder.create(out)
    folder.policy_every = options.save_every
    folder.settings = fixed_options(options)
    try:
        state = None
        if begun:
            check_same(options, out)
        if begun and folder.begun:
            state = loop.resume(method, folder, context)
            _check_larger(options, len(archive), out)
        if begun:
            folder.write_config(to_toml(options))
        if state is None or not folder.begun:
            folder.write_inputs(to_toml(options), given, {})
        state, stopped = _search(method, context, options, folder, state, quiet)
        if stopped and not _spent(options, len(archive)):
            raise Interrupted(out, state.generation, again="the same command goes on")
        return choose(options, out, given, validation, len(archive), state.seconds, quiet)
    except KeyboardInterrupt:
        saved = checkpoint.listing(out / "checkpoint")
        raise Interrupted(out, saved[-1][0] if saved else None, again="the same command goes on") from None
    finally:
        folder.close()


def _search(
    method: Method,
    context: Context,
    options: PretrainOptions,
    folder: run_folder.RunFolder,
    state: SearchState | None,
    quiet: bool,
) -> tuple[SearchState, bool]:
    """Train until the budget is spent or the user stops it: how far that came, and whether the user did."""
    title = f"pre-training on {len(context.problems)} {'problems' if options.chips_around else 'workloads'}"
    measure = local.build(context.problems, options.workers)
    try:
        with (
            StopSignal("" if quiet else HINT) as stop,
            progress.observer(title, options.budget, len(context.archive), quiet) as bar,
        ):
            reached = loop.search(
                method,
                context,
                measure,
                options.budget,
                folder,
                observers=(bar,),
                state=state,
                stop=stop,
            )
            return reached, stop()
    finally:
        measure.close()


def _spent(options: PretrainOptions, evaluations: int) -> bool:
    most = options.budget.evaluations
    return most is not None and evaluations >= most


def _check(options: PretrainOptions) -> MethodDefinition:
    for name, least in (
        ("seed", 0),
        ("workers", 1),
        ("threads", 1),
        ("save_every", 1),
        ("finetune", 0),
        ("chips_around", 0),
    ):
        if (value := getattr(options, name)) is not None and value < least:
            raise InputError(f"--{name.replace('_', '-')}: expected at least {least}, found {value}")
    for name, most in (("seed", MOST_SEED), ("workers", MOST_WORKERS), ("threads", MOST_WORKERS)):
        if getattr(options, name) > most:
            raise InputError(f"--{name}: expected at most {most}, found {getattr(options, name)}")
    Budget.of({name: value for name in BUDGETS if (value := getattr(options, name)) is not None})
    definition = find_method(options.method)
    if not definition.several:
        raise InputError(
            f"--method: expected one that trains on several workloads, such as es, rank or ppo, found {options.method}"
        )
    if options.finetune and not options.validation:
        raise InputError(
            f"--finetune {options.finetune}: expected --validation workloads to go on on, found none"
        )
    if options.chips_around and find_problem(options.problem).load().around is None:
        raise InputError(
            f"--chips-around {options.chips_around}: expected a problem whose chips can be varied, such as nnpi,"
            f" found {options.problem}"
        )
    if len(options.workloads) * (1 + options.chips_around) < 2:
        raise InputError(
            f"--workloads: expected at least two, or --chips-around, found {', '.join(options.workloads) or 'none'}"
            " (egrl run trains on one)"
        )
    return definition


def _check_larger(options: PretrainOptions, evaluations: int, out: Path) -> None:
    """InputError where the folder has been trained for longer than is asked for."""
    budget = options.budget
    if budget.evaluations is None or evaluations <= budget.evaluations:
        return
    if options.evals is not None:
        raise InputError(f"--evals: expected at least the {evaluations} of {out}, found {options.evals}")
    made = -(-evaluations // budget.generation_evals)
    raise InputError(f"--gens: expected at least the {made} of {out}, found {budget.generations}")


def _problems(options: PretrainOptions, workloads: Sequence[str]) -> list[Problem]:
    definition = find_problem(options.problem).load()
    settings: Any = typed_tables.build(definition.config, options.problem_settings, "--set problem")
    chip = options.chip or definition.chips()[0]
    return [definition.build(workload, chip, settings) for workload in workloads]


def _on_drawn_chips(options: PretrainOptions) -> list[Problem]:
    """Each workload on its own drawn chips; the same for equal seeds. InputError where it does not fit on one."""
    definition = find_problem(options.problem).load()
    if not options.chips_around or definition.around is None:
        return []
    settings: Any = typed_tables.build(definition.config, options.problem_settings, "--set problem")
    chip, found = options.chip or definition.chips()[0], []
    for number, workload in enumerate(options.workloads):
        for k in range(options.chips_around):
            rng = np.random.default_rng([options.seed, number, k])
            drawn = definition.around(chip, rng, f"variant-{number}-{k}")
            found.append(definition.build(workload, drawn, settings))
    return found


def _check_distinct(training: Sequence[Problem], validation: Sequence[Problem]) -> None:
    """InputError where a workload is given twice: a policy must not be chosen on what it was trained on."""
    for flag, given in (("--workloads", training), ("--validation", validation)):
        if (twice := repeated([problem.about.workload for problem in given])) is not None:
            raise InputError(f"{flag}: expected workloads of different names, found {twice} twice")
    trained = {problem.fingerprint() for problem in training}
    names = [problem.about.workload for problem in training]
    for problem in validation:
        if problem.fingerprint() in trained or problem.about.workload in names:
            raise InputError(
                f"--validation: expected workloads that are not trained on, found {problem.about.workload}"
                " among --workloads"
            )
