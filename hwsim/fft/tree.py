"""Plans as trees for people."""

from __future__ import annotations

from hwsim.fft.derivation import children
from hwsim.fft.grammar import Bluestein, Codelet, Loop, Plan, Rader, Split
from hwsim.sections import Branch


def tree(plan: Plan) -> Branch:
    """The plan, what it does in words, and the plans that it is made of."""
    return Branch(f"{plan.size} points: {_words(plan)}", [tree(part) for part in children(plan)])


def _words(plan: Plan) -> str:
    match plan:
        case Codelet():
            return "compiled code"
        case Split(direction, sort, radix, rest):
            way = "frequency" if direction == "f" else "time"
            between = "sorted" if sort else "in blocks"
            return f"split {radix.size} x {rest.size}, decimation in {way}, results between {between}"
        case Loop(block, copy):
            return f"{block} at a time, input {'copied together first' if copy else 'where it lies'}"
        case Rader():
            return "Rader: by a cyclic convolution of one less"
        case Bluestein(_, inner):
            return f"Bluestein: by a convolution of {inner.size}"
    return "open"
