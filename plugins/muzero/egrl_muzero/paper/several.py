"""One agent for several programs: placed on others with no training, and going on there. Not in the paper."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from egrl.reproduction import Say
from egrl.runs import folder as run_folder
from egrl.runs.past_run import PastRun
from egrl.transfer import zero_shot as transfer
from egrl.transfer.pretrain import pretrain
from egrl.transfer.validation import PretrainOptions
from egrl_muzero.method import DEFINITION
from egrl_muzero.paper.numbers import panel, players, problem_of, save_rewards, summed
from egrl_muzero.paper.plan import AGENT, UNREVISED, Plan

RANDOM_PLAYS = 20


def run_shared(plan: Plan, out: Path, run: Callable[..., None], say: Say, workers: int) -> dict[str, Any]:
    """Train, place and go on as far as that is missing. `run` makes runs, as in `egrl_muzero.paper.run.reproduce`,
    whose `workers` measure the training.
    """
    folder = out / "shared"
    if not (folder / run_folder.PRETRAINING).is_file():
        say(f"training one agent on {len(plan.training)} programs, {plan.shared_seconds:g} s")
        options = PretrainOptions(
            plan.training,
            plan.validation,
            problem="mmap",
            method=AGENT,
            seconds=plan.shared_seconds,
            threads=plan.threads,
            workers=workers,
            method_settings=_settings(plan),
        )
        pretrain(options, folder)
    source = transfer.read_policies(folder)
    own = [f"{AGENT}.{key}={json.dumps(value)}" for key, value in source.method_settings.items()]
    length = {"seconds": plan.held_out_seconds, "settings": own}
    run("held-out/scratch", plan.held_out, **length)
    run("held-out/from-shared", plan.held_out, **length, init=str(source.deployed.path))
    policies = transfer.load([source.steps[0], source.deployed])
    found, panels = {}, []
    for name in plan.held_out:
        say(f"placing the shared agent on {name}")
        problem = problem_of(name)
        mapping = policies.greedy(problem)
        placed = problem.evaluate(mapping, np.zeros(len(mapping), np.uint64))
        given = {
            label: [PastRun.read(out / "held-out" / part / name / f"{AGENT}-s0")]
            for label, part in (("from scratch", "scratch"), ("from the shared agent", "from-shared"))
        }
        entry = {
            **players(problem),
            "random": _random_play(problem),
            **{
                when: {"reward": float(placed.reward[k]), "speedup": float(placed.speedup[k])}
                for k, when in enumerate(("first", "deployed"))
            },
            **{label: summed(made) for label, made in given.items()},
        }
        found[name] = entry
        panels.append(panel(entry, name, given))
    save_rewards(panels, out / "figures" / "held-out.png")
    document = json.loads((folder / run_folder.PRETRAINING).read_text())
    return {
        "trained_on": document["trained_on"],
        "chosen_on": document["chosen_on"],
        "evaluations": document["evaluations"],
        "generations": [source.steps[0].generation, source.chosen],
        "held_out": found,
    }


def _settings(plan: Plan) -> dict[str, Any]:
    """The agent's settings of the plan, as `PretrainOptions` takes them: nothing is revised, so that what is found in
    the end is what was learned.
    """
    from egrl.core import typed_tables

    own = ["method" + s.removeprefix(AGENT) for s in plan.settings if s.startswith(f"{AGENT}.")]
    own.append(f"method.ablation={UNREVISED}")
    return {**DEFINITION.pretraining, **typed_tables.parse_set(own)["method"]}


def _random_play(problem: Any) -> float:
    """The mean reward of games in which every legal action is as likely as the others."""
    from egrl_muzero.mmap.random_play import random_legal

    draws = np.random.default_rng(0).random((RANDOM_PLAYS, len(problem.space.nodes)))
    actions = random_legal(problem.game, draws).action[:, :, None].astype(np.int16)
    return float(problem.evaluate(actions, np.zeros(RANDOM_PLAYS, np.uint64)).reward.mean())
