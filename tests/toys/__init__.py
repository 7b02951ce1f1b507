"""Toy problems that pass through the same suites as the real ones, to prove the types by more than one case."""

from __future__ import annotations

from toys.game import CoinGame, Purse, ToyGame
from toys.grammar import Splits, ToyGrammar
from toys.ragged import ToyRagged

TOYS = {"ragged": ToyRagged, "game": ToyGame, "grammar": ToyGrammar}

__all__ = ["TOYS", "CoinGame", "Purse", "Splits", "ToyGame", "ToyGrammar", "ToyRagged"]
