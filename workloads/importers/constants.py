"""Constants that nodes make of constants: what has to be held of them, and which parameters they are.

- What only moves numbers keeps their width, and what repeats them is held as small as they are.
- Numbers of few bits that are packed into integers, or scaled by hand (shifts, masks, casts, differences, products),
  are held as the file has them: an engine reads the integers and unpacks them on the way. That is so wherever the
  integers and what stands beside them take fewer bytes than the result.
- Everything else is held as it is computed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from workloads.importers.ir import Node, Tensor
from workloads.importers.vocabulary import CASTS, PARTS, QUANTISERS, VIEWS, data_of

REPEATING = frozenset({"Expand", "Tile", "Gather", "GatherElements", "GatherND"})
"""What gives elements of its first input several times, or not at all."""

REWRITING = (VIEWS - {"BitCast"}) | CASTS | {"Transpose"}
"""What makes of a constant the same one, written otherwise."""

MOVING = REWRITING | PARTS | REPEATING | {"Concat", "DepthToSpace", "SpaceToDepth"}
"""What makes of constants one whose numbers are theirs: it is stored as they are."""

UNPACKING = frozenset({"BitShift", "BitwiseAnd", "And", "Div", "Mod"})
"""What takes several numbers out of each element, if its result is larger."""

BITS = 32
"""Of the widest integer that numbers are packed into."""


def computed(node: Node, name: str, tensors: dict[str, Tensor]) -> Tensor:
    """The constant that a node makes of constants in its output `name`. Of a constant of the file that turns out to
    hold several numbers in each element, `tensors` has their number from then on."""
    output = replace(tensors[name], constant=True)
    given = [tensors[read] for read in node.inputs if read]
    if not given or not node.input(0) or node.op == "ConstantOfShape":
        filled = node.op == "ConstantOfShape"
        return replace(output, stored=1, learned=0) if filled else output
    moved = _moved(node, output, given, tensors)
    return moved if node.op in PARTS | REPEATING else _unpacked(node, moved, tensors)


def _moved(node: Node, output: Tensor, given: list[Tensor], tensors: dict[str, Tensor]) -> Tensor:
    """The constant as its inputs are held."""
    first, width = given[0], output.element_bytes
    is_moved = node.op in MOVING and (node.op not in VIEWS - REPEATING or first.elements == output.elements)
    beside: tuple[str, ...] = ()
    if is_moved:
        moved = given if node.op == "Concat" else given[:1]
        width = min(width, max(each.element_bytes for each in moved))
        scales = [name for name in node.inputs[1:] if name] if node.op in QUANTISERS else []
        beside = tuple(dict.fromkeys((*(name for each in moved for name in each.beside), *scales)))
    read = node.inputs[:1] if node.op in QUANTISERS else data_of(node)
    sources = tuple(_origins(read, tensors))
    learned = sum(tensors[name].parameters for name in sources)
    return replace(
        output,
        stored=first.kept if is_moved and node.op in REPEATING | REWRITING else None,
        element_bytes=width,
        beside=beside,
        learned=min(learned, sum(tensors[name].parameters for name in read)),
        sources=sources,
    )


def _origins(names: Iterable[str], tensors: dict[str, Tensor]) -> dict[str, None]:
    """The constants of the file that the named ones are made of."""
    return dict.fromkeys(origin for name in names for origin in tensors[name].sources or (name,))


def _unpacked(node: Node, made: Tensor, tensors: dict[str, Tensor]) -> Tensor:
    """A constant as the integers in the file that it is made of, where these take fewer bytes."""
    beside = (each for name in data_of(node) for each in tensors[name].beside)
    held = dict.fromkeys((*made.sources, *made.beside, *beside))
    origins = [name for name in held if not _is_in_instruction(tensors[name])]
    packed = max(origins, key=lambda name: tensors[name].held_bytes, default="")
    total = sum(tensors[name].held_bytes for name in origins)
    as_made = made.held_bytes + sum(tensors[name].held_bytes for name in made.beside)
    numbers = _numbers(node, made, tensors)
    if not packed or not is_quantised(tensors[packed]) or total >= as_made or numbers < 2:
        return made
    if numbers > tensors[packed].kept:
        tensors[packed] = hold(tensors[packed], numbers)
    return replace(
        made,
        stored=numbers,
        element_bytes=tensors[packed].held_bytes / numbers,
        beside=tuple(name for name in origins if name != packed),
        learned=min(numbers, tensors[packed].parameters),
        sources=(packed,),
    )


def _numbers(node: Node, made: Tensor, tensors: dict[str, Tensor]) -> int:
    """Different numbers in the result of a node; what was compared has none."""
    given = [tensors[name] for name in node.inputs if name]
    kept = [each.kept for each in given if not _is_compared(each, tensors)]
    if node.op in UNPACKING:
        return made.elements
    return min(made.elements, sum(kept) if node.op == "Concat" else max(kept, default=0))


def _is_compared(tensor: Tensor, tensors: dict[str, Tensor]) -> bool:
    """Whether a constant holds truth values, which are not numbers that were packed into a byte each."""
    unpacked = any(tensors[name].numbers for name in tensor.sources)
    return not tensor.is_float and tensor.element_bytes == 1 and not unpacked


def _is_in_instruction(tensor: Tensor) -> bool:
    """Whether a constant is a number, or a list of places of bits in an integer."""
    places = not tensor.is_float and tensor.kept <= BITS and sum(size > 1 for size in tensor.shape or ()) < 2
    return tensor.kept <= 1 or places


def is_quantised(tensor: Tensor) -> bool:
    """Whether a matrix of the file has the type of numbers of few bits, or of integers that could hold several."""
    narrow = tensor.element_bytes <= 1 if tensor.is_float else 2 <= tensor.element_bytes <= 4
    return narrow and sum(size > 1 for size in tensor.shape or ()) > 1


def hold(tensor: Tensor, numbers: int) -> Tensor:
    """A constant whose elements hold so many numbers, or more if that was known; all of them are parameters."""
    return replace(tensor, numbers=max(numbers, tensor.numbers), learned=None)


def hold_packed(node: Node, tensors: dict[str, Tensor]) -> None:
    """Note how many numbers the packed weight of a product holds, where a front end says so (`packed`)."""
    numbers, weight = node.integer("packed", 0), node.input(1)
    if numbers and weight and tensors[weight].constant:
        for name in (weight, *tensors[weight].sources):
            if name == weight or is_quantised(tensors[name]):
                tensors[name] = hold(tensors[name], numbers)
