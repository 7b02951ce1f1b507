"""Batched Monte-Carlo tree search over arrays; dynamics come in as functions: it knows no network and no game."""

from egrl_muzero.mcts.game import game_dynamics, unguided
from egrl_muzero.mcts.gumbel import Gumbel
from egrl_muzero.mcts.puct import Puct
from egrl_muzero.mcts.search import Policy, Recurrent, Result, Root, Step, search
from egrl_muzero.mcts.tree import Tree

__all__ = [
    "Gumbel",
    "Policy",
    "Puct",
    "Recurrent",
    "Result",
    "Root",
    "Step",
    "Tree",
    "game_dynamics",
    "search",
    "unguided",
]
