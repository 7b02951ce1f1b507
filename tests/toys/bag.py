"""Plans that are written as texts, made of plans for parts, by rules for open sub-problems, and raced at the end."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwsim.capabilities import Race
from hwsim.explanation import Breakdown, Holder, Payer
from hwsim.mappings import independent_sample
from hwsim.problem import About, Baseline, Evaluation, Floats, Keys, Mapping16, Violation
from hwsim.space import Space, check_keys
from hwsim.stepwise import Pick, RuledDerivation
from toys.grammar import Splits
from workloads.errors import InputError

NUMBER, ROWS = 9, 5
Coins = tuple[int, ...]


def encode(coins: Coins, number: int = NUMBER) -> Mapping16:
    """int16 [5, 1]: coins - 2; the plan of a smaller number begins with minus that number."""
    row = np.full((ROWS, 1), -1, np.int16)
    numbers = [coin - 2 for coin in coins]
    row[: len(numbers) + (number != NUMBER), 0] = ([-number] if number != NUMBER else []) + numbers
    return row


def decode(mapping: Mapping16) -> tuple[int, list[int]]:
    """The number, and the wishes (coins - 2) of one mapping [5, 1]."""
    wishes = mapping[:, 0].tolist()
    return (-wishes[0], wishes[1:]) if wishes[0] < -1 else (NUMBER, wishes)


def walked(number: int, wishes: Sequence[int]) -> Coins:
    """The coins 2..5 that sum to a number, each the wished one or the nearest that leads somewhere."""
    made: list[int] = []
    for wish in [*wishes, *([0] * number)]:
        rest = number - sum(made)
        if rest == 0:
            break
        open_coins = [coin for coin in range(2, min(5, rest) + 1) if rest - coin != 1]
        made.append(min(open_coins, key=lambda coin: (abs(coin - 2 - max(wish, 0)), coin)))
    return tuple(sorted(made))


class Bags(Splits, RuledDerivation):
    """The sums of coins, with rules for what is left: taking a coin."""

    order = (2, 3, 4, 5, 6, 7, NUMBER)

    def __init__(self) -> None:
        super().__init__(NUMBER)

    def mapping(self, vertex: Hashable) -> Mapping16 | None:
        assert isinstance(vertex, tuple)
        return encode(vertex) if sum(vertex) == NUMBER else None

    def guided(self, vertex: Hashable, pick: Pick) -> Mapping16 | None:
        made = vertex
        while (found := self.mapping(made)) is None:
            following = self.successors(made)
            if not following:
                return None
            assert isinstance(made, tuple)
            made = following[pick(NUMBER - sum(made), len(following))]
        return found

    def chosen(self, mapping: Mapping16) -> Sequence[tuple[Hashable, int, int]]:
        made, steps = self.root, list[tuple[Hashable, int, int]]()
        for wish in decode(mapping)[1]:
            if wish < 0:
                break
            assert isinstance(made, tuple)
            following = self.successors(made)
            steps.append((NUMBER - sum(made), len(following), wish))
            made = following[wish]
        return steps

    def closing(self, goal: Hashable) -> Sequence[int]:
        assert isinstance(goal, int)
        return [goal - 2] if 2 <= goal <= 5 else []

    def composed(self, part: int, kept: Mapping[int, Sequence[Mapping16]]) -> Sequence[Mapping16]:
        plans = {(part,)} if part <= 5 else set()
        for coin in range(2, 6):
            for row in kept.get(part - coin, ()):
                rest = (wish + 2 for wish in decode(row)[1] if wish >= 0)
                plans.add(tuple(sorted((coin, *rest))))
        return [encode(plan, part) for plan in sorted(plans)]


class BagRace(Race):
    """Costs do not vary, and the winner is remembered for as long as the problem is there."""

    def __init__(self, best: dict[str, Mapping16]) -> None:
        self._best = best

    def costs(self, mapping: Mapping16) -> Floats:
        return prices(mapping)

    def known(self) -> Mapping16 | None:
        return self._best.get("plan")

    def remember(self, mapping: Mapping16, cost: float) -> str:
        self._best["plan"] = mapping.copy()
        return f"remembered at {cost:g}"


def prices(mapping: Mapping16) -> Floats:
    """Float64 [B] of plans [B, 5, 1]: of the coins, and of how many there are."""
    price = (2.0, 2.5, 5.0, 4.5)
    plans = [[wish for wish in decode(row)[1] if wish >= 0] for row in mapping]
    return np.array([math.fsum(price[wish] for wish in plan) + 0.1 * len(plan) ** 2 for plan in plans])


class ToyBag:
    """Coins 2..5 that sum to 9, or to a part of it, in rising order."""

    def __init__(self) -> None:
        self.about = About("toy-bag", "toy", "none", evaluated="bags", measured=True, alike=False)
        first = encode(walked(NUMBER, ()))
        nodes = [f"n{i}" for i in range(ROWS)]
        self.space = Space(nodes, ["coin"], np.full((ROWS, 1), 4, np.int16), initial=first)
        self.derivation = Bags()
        self.race = BagRace({})
        self.baseline = Baseline(first, float(prices(first[None])[0]), "small coins")

    def evaluate(self, mapping: Mapping16, key: Keys) -> Evaluation:
        settled, ran = self.repair(mapping, key), np.ones(len(mapping), np.bool_)
        baseline_cost = np.array([prices(encode(walked(n, ()), n)[None])[0] for n, _ in map(decode, settled)])
        partial = settled[:, 0, 0] < -1
        return Evaluation.of_costs(
            prices(settled), baseline_cost, ran, settled, np.zeros(len(ran)), partial=partial
        )

    def sample(self, probabilities: NDArray[np.floating[Any]] | None, key: Keys) -> Mapping16:
        return self.repair(independent_sample(self.space, probabilities, key), key)

    def repair(self, mapping: Mapping16, key: Keys) -> Mapping16:
        least = np.full((ROWS, 1), -1)
        least[0, 0] = -7
        if (
            mapping.dtype != np.int16
            or mapping.shape[1:] != (ROWS, 1)
            or ((mapping < least) | (mapping > 3)).any()
        ):
            raise ValueError(f"mapping: expected int16 [B, {ROWS}, 1] of coins, received {mapping.shape}")
        check_keys(key, len(mapping))
        plans = [(number, walked(number, wishes)) for number, wishes in map(decode, mapping)]
        return np.array([encode(coins, number) for number, coins in plans], np.int16).reshape(mapping.shape)

    explained = Breakdown

    def explain(self, mapping: Mapping16) -> Breakdown:
        coins = [str(wish + 2) for wish in decode(mapping)[1] if wish >= 0]
        payers = tuple(Payer(f"n{n}", coin, int(coin), 0.0) for n, coin in enumerate(coins))
        held = tuple(Holder(f"n{n}", coin, 1, 0, 1) for n, coin in enumerate(coins))
        total = sum(map(int, coins))
        return Breakdown(total, {"coins": total}, payers, ROWS, len(coins), 0, held)

    def plan_text(self, mapping: Mapping16) -> str:
        return "+".join(str(wish + 2) for wish in decode(mapping)[1] if wish >= 0)

    def read_plan(self, text: str, where: str) -> Mapping16:
        coins = [int(word) for word in text.split("+") if word in ("2", "3", "4", "5")]
        if sum(coins) != NUMBER:
            raise InputError(f"{where}: expected coins 2..5 that sum to {NUMBER}, found {text!r}")
        return encode(tuple(sorted(coins)))

    def judge(self, mapping: Mapping16) -> list[Violation]:
        number, wishes = decode(mapping)
        total = sum(wish + 2 for wish in wishes if wish >= 0)
        return [] if total == number else [Violation("sum", "the bag", total, number, "")]

    def fingerprint(self) -> str:
        return hashlib.sha256(f"toy-bag {NUMBER}".encode()).hexdigest()
