"""A scheduled HLO module as a program.

- **Left out**: `tuple`, `get-tuple-element`, `bitcast`, barriers, parameters and constants make neither tensors nor
  instructions. Each array of a tuple is a tensor. A parameter or constant is there from the start. Scalars and empty
  arrays have no tensor, because chips keep scalars beside their memories.
- **A fusion** is one instruction with the operations of its body. Of an operand it reads what its result needs: where
  the body slices or gathers from it, the slices; at most all of it once.
- **A loop** is one instruction, priced with its body and condition times its trips: as XLA states them, or counted, or
  one, with a remark. An operand's traffic is what the body reads of it in all trips. Traffic of the body's own
  temporaries goes to slow memory (`slow_bytes`). State that the body hands on unchanged is the same tensor afterwards;
  all other state is updated in place.
- **A call** is priced likewise, once. **A choice** costs what its dearest branch costs. **An asynchronous pair** is one
  instruction, at its start; its operands are kept until its end.
- **In place**: `dynamic-update-slice`, `scatter`, fusions that end in one of these, loop state, and what a custom call
  states. Where nothing needs the old value any more, and it is no constant and no parameter (unless donated), the two
  buffers are an alias group and only the update moves. Otherwise the old value is copied: read and written in full.
- **At the boundary** parameters and results lie in slow memory. `--boundary-aliases` makes a result take a donated
  parameter's memory.
- **Of the TPU compiler's texts** copies between memories (`egrl_hlo/moves.py`) are no instructions but XLA's placement
  (`egrl_hlo/placement.py`). Sizes are those of tiles (`egrl_hlo/layout.py`).
- **Operations**: two a multiply-accumulate, without padding and the holes of dilated convolutions; one an element of
  anything element-wise; none for moving and converting; a reduction its elements times its function's; a sort n log2 n
  comparisons; an FFT 5 n log2 n. Library calls that multiply (`…matmul`, `…gemm`, `…conv…`) count by their shapes. An
  unknown opcode counts as element-wise, with a remark, or is refused (`uncounted.account`).
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from egrl_hlo import moves
from egrl_hlo.bodies import origins
from egrl_hlo.parse import Module
from egrl_hlo.placement import placement
from egrl_hlo.price import Pricer
from egrl_hlo.scan import Array, Fault, Shape, leaves
from egrl_hlo.trace import NONE, Trace, trace
from workloads.errors import InputError
from workloads.importers.uncounted import account, names
from workloads.programs.program import Program, ProgramBuilder, check
from workloads.text import few, visible


def lower(
    module: Module,
    name: str,
    source: str,
    where: str,
    boundary_aliases: bool = False,
    allow_unknown: bool = False,
) -> Program:
    """The program of a module's entry computation; its `remarks` say what had to be guessed or was not counted.

    An update happens in place where nothing needs the old value afterwards and it is no constant and no parameter of
    the entry, unless that is donated (`input_output_alias`); it is then an alias group. `boundary_aliases` makes one of
    each donated parameter and the result in its place, too, where times allow that.

    Raises:
        InputError: the module contradicts itself, or more of it is of unknown work than a mapping could be found for
            and that is not what `allow_unknown` says; one line that begins with `where`.
    """
    try:
        donated = _donated(module)
        pricer = Pricer(module)
        found = trace(
            module.entry,
            pricer.price,
            lambda number, leaf: (number, leaf) in donated,
            moves.find(module.entry, module),
        )
        program = _program(found, module, name, source, boundary_aliases)
    except Fault as fault:
        raise InputError(f"{where}: {fault}") from None
    except RecursionError:
        raise InputError(f"{where}: expected computations of few levels, found too many") from None
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    moved = sum(b.traffic_bytes for b in program) + sum(i.slow_bytes for i in program.instructions)
    remarks = [*account(pricer.unknown, moved, where, allow_unknown), *_loops(pricer)]
    return check(replace(program, remarks=few(list(map(visible, remarks)))))


def _loops(pricer: Pricer) -> list[str]:
    loops = list(dict.fromkeys(pricer.guessed))
    if not loops:
        return []
    return [f"loops without a known number of trips: {names(loops)}: counted as one trip"]


def _donated(module: Module) -> Set[tuple[int, int]]:
    """(parameter, leaf) of the parameters whose memory a result may take."""
    parameters = module.entry.parameters
    found = set()
    for _, number, path in module.aliases:
        if number >= len(parameters):
            raise Fault(f"input_output_alias: expected parameters below {len(parameters)}, found {number}")
        found.add((number, _leaf(parameters[number].shape, path)))
    return found


def _leaf(shape: Shape, path: tuple[int, ...]) -> int:
    """The number of the array at a path in a shape."""
    at = 0
    for index in path:
        if isinstance(shape, Array) or index >= len(shape):
            raise Fault(f"input_output_alias: expected paths in the shapes, found {list(path)}")
        at += sum(len(leaves(part)) for part in shape[:index])
        shape = shape[index]
    return at


def _program(found: Trace, module: Module, name: str, source: str, boundary: bool) -> Program:
    builder = ProgramBuilder()
    used = _used(found)
    at = {v: builder.tensor(found.names[v], found.sizes[v]) for v in range(len(found.sizes)) if v in used}
    for step in found.steps:
        builder.instruction(
            step.node.name,
            step.node.opcode,
            step.flops,
            {at[v]: size for v, size in step.reads.items()},
            {at[v]: size for v, size in step.writes.items()},
            step.slow_bytes,
            [(at[old], at[new]) for old, new in step.in_place],
        )
    for value, last in found.last.items():
        builder.use(at[value], max(last, 0))
    for value in found.results:
        if value != NONE:
            builder.result(at[value])
    if boundary:
        for old, new in _boundary(found, module):
            builder.share([at[old], at[new]])
    program = builder.build(name, source)
    return replace(program, compiled=placement(found, program, list(at)))


def _used(found: Trace) -> set[int]:
    """Values that something reads or writes, and results: a result that a call passes on is none of its own."""
    used = {v for step in found.steps for v in (*step.reads, *step.writes)}
    return used | {v for v in found.results if v != NONE} | set(found.parameters) | set(found.last)


def _boundary(found: Trace, module: Module) -> list[tuple[int, int]]:
    """Pairs (parameter, result) that share memory: of one size, the one dead when the other is written, and neither
    sharing a place with another value unless the updates in place lead from the one to the other."""
    first = origins(found)
    replaced = {old for step in found.steps for old, _ in step.in_place}
    by_leaf = {leaf: value for value, leaf in found.parameters.items()}
    written = {value: at for at, step in enumerate(found.steps) for value in step.writes}
    results = set(found.results)
    pairs = []
    for out, number, path in module.aliases:
        parameter = module.entry.parameters[number]
        old = by_leaf.get((number, _leaf(parameter.shape, path)), NONE)
        new = found.results[_leaf(module.entry.root.shape, out)]
        if NONE in (old, new) or old in results or new not in written or found.sizes[old] != found.sizes[new]:
            continue
        apart = old not in replaced and new not in first
        if found.last.get(old, 0) <= written[new] and (apart or first.get(new) == old):
            pairs.append((old, new))
    return pairs
