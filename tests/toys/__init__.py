"""Toy problems that pass through the same suites as the real ones, to prove the types by more than one case."""

from __future__ import annotations

from toys.bag import ToyBag
from toys.chain import ToyChain
from toys.game import CoinGame, Purse, ToyCoins, ToyGame
from toys.grammar import Splits, ToyGrammar
from toys.ragged import ToyRagged
from toys.shelf import ToyShelf

TOYS = {"ragged": ToyRagged, "game": ToyGame, "grammar": ToyGrammar}
ABLE = {"chain": ToyChain, "shelf": ToyShelf, "bag": ToyBag, "coins": ToyCoins}
"""These have, together with the others, every capability that there is."""

__all__ = ["ABLE", "TOYS", "CoinGame", "Purse", "Splits", "ToyGame", "ToyGrammar", "ToyRagged"]
