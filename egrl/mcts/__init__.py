"""Batched Monte-Carlo tree search over arrays; dynamics come in as functions: it knows no network and no game."""

from egrl.mcts.game import game_dynamics, unguided
from egrl.mcts.gumbel import Gumbel
from egrl.mcts.puct import Puct
from egrl.mcts.search import Policy, Recurrent, Result, Root, Step, search
from egrl.mcts.tree import Tree

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
