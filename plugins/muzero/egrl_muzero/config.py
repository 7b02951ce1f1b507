"""Settings of the method `muzero`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, Lt
from typing_extensions import Doc

from egrl.methods.revise import ReviseConfig
from egrl_muzero.learner import MuZeroLearnerConfig
from egrl_muzero.mmap.parts import View
from egrl_muzero.networks import MuZeroConfig


@dataclass(frozen=True)
class Discount:
    """How many moves an agent looks ahead: 1 / (1 - discount), whose logarithm grows evenly from `first` to `last`."""

    first: Annotated[float, Ge(0), Lt(1), Doc("discount per move at the beginning, less than 1")] = 0.997
    last: Annotated[float, Ge(0), Lt(1), Doc("discount per move at the end, less than 1")] = 0.9995
    steps: Annotated[
        int, Ge(1), Le(10**9), Doc("gradient steps over which the discount grows from the first to the last")
    ] = 30_000

    def at(self, step: int) -> float:
        """The discount after that many gradient steps."""
        share = min(1.0, step / self.steps)
        return float(1 - (1 - self.first) ** (1 - share) * (1 - self.last) ** share)


@dataclass(frozen=True)
class Temperature:
    """The temperature with which actions are drawn in proportion to visits (PUCT only)."""

    initial: Annotated[
        float, Ge(0), Le(100), Doc("temperature at the beginning (Table 6); 0: the most visited action")
    ] = 1.0
    final: Annotated[float, Ge(0), Le(100), Doc("temperature at the end (Table 6)")] = 0.2
    steps: Annotated[
        int,
        Ge(1),
        Le(10**9),
        Doc("gradient steps over which the temperature falls from the first to the last"),
    ] = 20_000

    def at(self, step: int) -> float:
        """The temperature after that many gradient steps."""
        return self.initial + (self.final - self.initial) * min(1.0, step / self.steps)


def _small_view() -> View:
    return View(map_cells=32, map_steps=256, profile_cells=64, supply_steps=64, offsets=64, held=1024)


@dataclass(frozen=True)
class PlayConfig:
    """How games are played and learned from."""

    slots: Annotated[int, Ge(1), Le(65536), Doc("games that are played side by side")] = 32
    simulations: Annotated[
        int, Ge(1), Le(100_000), Doc("simulations per search, of which there is one per move")
    ] = 32
    search: Annotated[
        Literal["gumbel", "puct"],
        Doc('"gumbel": Gumbel MuZero; "puct": PUCT with Dirichlet noise and a temperature'),
    ] = "gumbel"
    dynamics: Annotated[
        Literal["learned", "rules"],
        Doc(
            '"learned": searches use the learned model; "rules": the game\'s own rules, with the'
            " networks at the leaves (needs reanalyse = 0)"
        ),
    ] = "learned"
    ablation: Annotated[
        Literal["none", "no-learning", "no-search", "no-revision"],
        Doc(
            '"no-learning": search by the rules with nothing learned; "no-search": play the policy'
            ' network; "no-revision": revise and imitate no games ("no-search" does neither, too)'
        ),
    ] = "none"
    discount: Annotated[Discount, Doc("discount of rewards per move")] = field(default_factory=Discount)
    chunk: Annotated[int, Ge(1), Le(100_000), Doc("moves per slot between two phases of learning")] = 16
    updates: Annotated[int, Ge(0), Le(100_000), Doc("gradient steps per phase of learning")] = 8
    reanalyse: Annotated[float, Ge(0), Lt(1), Doc("share of the training data that is searched anew")] = 0.5
    replay: Annotated[
        int, Ge(1), Le(10_000_000), Doc("segments (of `learner.unroll` moves) that are remembered")
    ] = 20_000
    greedy: Annotated[float, Ge(0), Le(1), Doc("share of the slots that play without noise")] = 0.125
    stray: Annotated[
        float,
        Ge(0),
        Le(1000),
        Doc(
            "how many times per game, on average, the last slot goes astray (`egrl_muzero.move_chooser`); the"
            " others that are not greedy do so less often, in even steps"
        ),
    ] = 0.0
    coherent_scale: Annotated[
        float,
        Ge(0),
        Le(100),
        Doc(
            "deviation of noise that lasts a whole game, in the last slot (Gumbel and learned"
            " dynamics only); 0: all noise is drawn anew each move"
        ),
    ] = 0.0
    restarts: Annotated[
        float,
        Ge(0),
        Le(1),
        Doc(
            "share of the new games that begin with a part of one of the agent's best games; greedy"
            " slots never do"
        ),
    ] = 0.0
    elites: Annotated[int, Ge(1), Le(10_000), Doc("best games per problem that are kept for restarts")] = 4
    demonstrations: Annotated[
        int,
        Ge(0),
        Le(65536),
        Doc(
            "slots per problem that play the baseline's mapping; the agent learns from them, they are"
            " never proposed"
        ),
    ] = 0
    imitations: Annotated[
        int,
        Ge(0),
        Le(65536),
        Doc("slots per problem that play the best game so far again; the agent learns from them"),
    ] = 4
    revise: Annotated[ReviseConfig, Doc("how the best games are revised (`egrl.methods.revise`)")] = field(
        default_factory=ReviseConfig
    )
    potential_rate: Annotated[
        float,
        Gt(0),
        Le(1),
        Doc("weight of a new reward in the running mean of its place, which the potential is made of"),
    ] = 0.05
    gumbel_scale: Annotated[
        float,
        Ge(0),
        Le(100),
        Doc(
            "size of the Gumbel noise in the last slot; the others that are not greedy have less, in"
            " even steps"
        ),
    ] = 0.8
    value_scale: Annotated[
        float,
        Ge(0),
        Le(100),
        Doc("scale of values beside logits in Gumbel MuZero's improved policy"),
    ] = 0.02
    maxvisit_init: Annotated[
        float,
        Ge(0),
        Le(1e6),
        Doc("visits that are added to the largest count in that scale"),
    ] = 50.0
    least_span: Annotated[
        float,
        Gt(0),
        Le(1e6),
        Doc("smallest span of values that is stretched to 0 .. 1 in a search"),
    ] = 1e-8
    noise_fraction: Annotated[
        float, Ge(0), Le(1), Doc("share of Dirichlet noise in the prior of the root (PUCT)")
    ] = 0.25
    noise_alpha: Annotated[
        float,
        Gt(0),
        Le(100),
        Doc("concentration of the Dirichlet noise; the smaller, the more uneven (PUCT)"),
    ] = 0.3
    temperature: Annotated[Temperature, Doc("temperature of actions (PUCT)")] = field(
        default_factory=Temperature
    )
    view: Annotated[View, Doc("how much of an MMapGame the agent sees")] = field(default_factory=_small_view)
    learner: Annotated[MuZeroLearnerConfig, Doc("see `egrl_muzero.learner`")] = field(
        default_factory=MuZeroLearnerConfig
    )
    network: Annotated[MuZeroConfig, Doc("see `egrl_muzero.networks`")] = field(default_factory=MuZeroConfig)

    @property
    def searches_anew(self) -> bool:
        """True if remembered moves are searched again, which needs a search with learned networks."""
        return self.reanalyse > 0 and self.ablation not in ("no-learning", "no-search")


PAPER = {
    "simulations": 400,
    "search": "puct",
    "discount.first": 0.9999,
    "discount.last": 0.9999,
    "greedy": 0.0,
    "imitations": 0,
    "revise.moves": 0.0,
    "coherent_scale": 0.0,
    "noise_fraction": 0.25,
    "noise_alpha": 0.03,
    "temperature.initial": 1.0,
    "temperature.final": 0.2,
    "temperature.steps": 400_000,
    "reanalyse": 0.5,
    "replay": 20_000,
    "learner.batch": 512,
    "learner.learning_rate": 2e-4,
    "learner.weight_decay": 1e-4,
    "view.held": 0,
    "view.map_cells": 128,
    "view.profile_cells": 512,
    "view.supply_steps": 128,
    "view.offsets": 128,
    "network.width": 512,
    "network.hidden": 1024,
    "network.blocks": 4,
    "network.row_width": 64,
    "network.map_channels": 32,
    "network.map_blocks": 4,
}
"""What `--preset paper` sets: Table 6; the sizes of the networks are not published and are ours."""
