"""HLO text as XLA prints it (`compiled.as_text()`): a module, its computations, their instructions.

Read: names, shapes, opcodes, operands, attributes (as text). Skipped: layouts, literals but for small numbers,
metadata. Names may have a leading %, operands may have their shapes before them; both ways of printing occur.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from egrl_hlo import scan
from egrl_hlo.scan import Array, Fault, Line, Shape, closing, leaves
from workloads.errors import InputError

_NAME = re.compile(r"%?([A-Za-z_][\w.\-]*)")
_OPCODE = re.compile(r"([a-z][a-z0-9\-]*)\(")
_HEADER = re.compile(r"HloModule\s+([^\s,]+)")
_COMPUTATION = re.compile(r"(ENTRY\s+)?%?([A-Za-z_][\w.\-]*)\s*(?:\(|\{)")
_SCHEDULED = re.compile(r"[,\s]is_scheduled=true\b")
_INSTRUCTION = re.compile(r"\s*(?:ROOT\s+)?%?[A-Za-z_][\w.\-]*\s*=\s")
_ALIAS = re.compile(r"\{\s*([\d,\s]*)\}:\s*\(\s*(\d{1,9})\s*,\s*\{\s*([\d,\s]*)\}")
_PATH = re.compile(r"\s*(?:\d{1,9}\s*(?:,\s*\d{1,9}\s*)*)?")
_OPERAND_SHAPE = re.compile(r"\(|[a-z][a-z0-9]*\[")
_TABLE = re.compile(r"^(?:FileNames|FunctionNames|FileLocations|StackFrames)\s*\n(?:.+\n)*", re.MULTILINE)
_UNREAD = ("metadata", "sharding", "frontend_attributes", "statistics")
MAX_LITERAL = 40
"""Characters of a constant that are kept."""


@dataclass(frozen=True)
class Node:
    """An instruction of HLO. `literal` is a small constant's value or a parameter's number."""

    name: str
    opcode: str
    shape: Shape
    operands: tuple[str, ...]
    attributes: dict[str, str]
    literal: str = ""


@dataclass(frozen=True)
class Computation:
    """Instructions in the order of the text, which is the schedule where the module is scheduled."""

    name: str
    nodes: tuple[Node, ...]
    root: Node
    by_name: dict[str, Node] = field(repr=False)

    @property
    def parameters(self) -> list[Node]:
        """The parameters by number."""
        found = [node for node in self.nodes if node.opcode == "parameter"]
        return sorted(found, key=lambda node: int(node.literal))

    def operands(self, node: Node) -> list[Node]:
        """What one of its instructions reads."""
        return [self.by_name[name] for name in node.operands]


Alias = tuple[tuple[int, ...], int, tuple[int, ...]]
"""(path in the result, number of a parameter, path in it)."""


@dataclass(frozen=True)
class Module:
    name: str
    computations: dict[str, Computation]
    entry: Computation
    aliases: tuple[Alias, ...]


def parse(text: str, where: str) -> Module:
    """The scheduled module in HLO text; `where` (a file name) begins every error.

    Raises:
        InputError: no HLO text, not scheduled, cut off or damaged; one line.
    """
    reader = _Reader(text, where)
    try:
        return reader.module()
    except Fault as fault:
        cut = reader.at >= len(reader.text) and "cut off" not in str(fault)
        hint = ", on the last line: cut off?" if cut else ""
        raise InputError(f"{where}: line {reader.number}: {fault}{hint}") from None
    except RecursionError:
        raise InputError(
            f"{where}: line {reader.number}: expected shapes of few levels, found too many"
        ) from None


class _Reader:
    def __init__(self, text: str, where: str) -> None:
        self.text = _TABLE.sub(lambda table: "\n" * table[0].count("\n"), text)
        self.where = where
        self.at = 0
        self.number = 0
        self._next = 1

    def line(self) -> str | None:
        """The next line that is not empty, with those that its open brackets need; None at the end."""
        while self.at < len(self.text):
            end = self.text.find("\n", self.at)
            end = len(self.text) if end < 0 else end
            self.number = self._next
            begin, self.at = self.at, end + 1
            self._next += 1
            found = self.text[begin:end]
            if found.strip() and not found.lstrip().startswith("//"):
                return self._join(begin, end) if _INSTRUCTION.match(found) else found
        return None

    def _join(self, begin: int, end: int) -> str:
        """A literal may go over many lines: the text up to the end of the line on which its bracket closes."""
        found = self.text[begin:end]
        opcode = re.search(r"\bconstant\(", found.split('"', 1)[0])
        if opcode is None or closing(found, opcode.end() - 1) is not None:
            return found
        close = closing(self.text, begin + opcode.end() - 1)
        if close is None:
            raise Fault(
                "expected a closing bracket of a constant, found the end: the text is cut off or damaged"
            )
        end = self.text.find("\n", close)
        end = len(self.text) if end < 0 else end
        self._next += self.text.count("\n", begin, end)
        self.at = end + 1
        return self.text[begin:end]

    def module(self) -> Module:
        header = self.line()
        found = _HEADER.match(header or "")
        if header is None or found is None:
            raise Fault("expected HLO text, which begins with HloModule, found something else")
        if _SCHEDULED.search(header) is None:
            raise Fault(
                "expected a scheduled module (is_scheduled=true), found one that is not: take the text after "
                "compilation, jax.jit(f).lower(…).compile().as_text()"
            )
        aliases = _aliases(header)
        computations: dict[str, Computation] = {}
        entry: Computation | None = None
        while (line := self.line()) is not None:
            head = _COMPUTATION.match(line)
            if head is None or not line.rstrip().endswith("{"):
                raise Fault(f"expected a computation, found {Line(line).here()}")
            if head[2] in computations:
                raise Fault(f"expected a new name of a computation, found {head[2]!r} again")
            if head[1] and entry is not None:
                raise Fault("expected one ENTRY computation, found another")
            computations[head[2]] = self.computation(head[2])
            entry = computations[head[2]] if head[1] else entry
        if entry is None:
            raise Fault("expected an ENTRY computation, found the end: the text is cut off")
        return Module(found[1], computations, entry, aliases)

    def computation(self, name: str) -> Computation:
        by_name: dict[str, Node] = {}
        root: Node | None = None
        while (line := self.line()) is not None:
            if line.strip().startswith("}"):
                break
            node, is_root = _node(Line(line))
            if node.name in by_name:
                raise Fault(f"expected a new name of an instruction, found {node.name!r} again")
            unknown = next((operand for operand in node.operands if operand not in by_name), None)
            if unknown is not None:
                raise Fault(
                    f"{node.name}: expected operands among the instructions before it, found {unknown!r}"
                )
            by_name[node.name] = node
            if is_root:
                root = node
        else:
            raise Fault(f"expected the end of computation {name!r}, found the end: the text is cut off")
        if root is None:
            raise Fault(f"expected a ROOT in computation {name!r}, found none")
        nodes = tuple(by_name.values())
        numbers = sorted(int(node.literal) for node in nodes if node.opcode == "parameter")
        if numbers != list(range(len(numbers))):
            raise Fault(f"expected parameters 0, 1, … in computation {name!r}, found {numbers[:8]}")
        return Computation(name, nodes, root, by_name)


def _node(line: Line) -> tuple[Node, bool]:
    is_root = line.take("ROOT ")
    name = line.match(_NAME)
    if name is None:
        raise Fault(f"expected an instruction, found {line.here()}")
    line.expect("=")
    shape = scan.parse(line)
    opcode = line.match(_OPCODE)
    if opcode is None:
        raise Fault(f"{name[1]}: expected an opcode and its operands, found {line.here()}")
    line.at -= 1
    literal = ""
    operands: tuple[str, ...] = ()
    if opcode[1] in ("constant", "parameter"):
        content = line.group()[1:-1].strip()
        literal = content if len(content) <= MAX_LITERAL else ""
        if opcode[1] == "parameter" and (not literal.isascii() or not literal.isdigit() or len(literal) > 9):
            raise Fault(f"{name[1]}: expected the number of a parameter, found {content[:20]!r}")
    else:
        operands = _operands(line, name[1])
    return Node(name[1], opcode[1], shape, operands, _attributes(line, name[1]), literal), is_root


def _operands(line: Line, name: str) -> tuple[str, ...]:
    line.expect("(")
    found: list[str] = []
    while not line.take(")"):
        if line.peek() != "%" and _OPERAND_SHAPE.match(line.text, line.skip()) is not None:
            scan.parse(line)
        operand = line.match(_NAME)
        if operand is None:
            raise Fault(f"{name}: expected an operand, found {line.here()}")
        found.append(operand[1])
        if not line.take(","):
            line.expect(")")
            break
    return tuple(found)


def _attributes(line: Line, name: str) -> dict[str, str]:
    found: dict[str, str] = {}
    while line.take(","):
        key = line.match(_NAME)
        if key is None:
            raise Fault(f"{name}: expected an attribute, found {line.here()}")
        line.expect("=")
        value = line.value()
        if key[1] not in _UNREAD:
            found[key[1]] = value
    if line.peek():
        raise Fault(f"{name}: expected a comma or the end of the line, found {line.here()}")
    return found


def _aliases(header: str) -> tuple[Alias, ...]:
    at = header.find("input_output_alias=")
    if at < 0:
        return ()
    table = Line(header, header.index("=", at) + 1)
    if table.peek() != "{":
        raise Fault(f"input_output_alias: expected a table, found {table.here()}")
    where = "input_output_alias"
    return tuple(
        (path_of(out, where), int(number), path_of(path, where))
        for out, number, path in _ALIAS.findall(table.group())
    )


def path_of(text: str, where: str) -> tuple[int, ...]:
    """The numbers of a path into tuples, "0, 1". Raises Fault, which `where` begins, where it is none."""
    if _PATH.fullmatch(text) is None:
        raise Fault(f"{where}: expected a path of numbers and commas, found {text.strip()[:40]!r}")
    return tuple(int(part) for part in text.split(",") if part.strip())


_NUMBER = re.compile(r"-?\d{1,18}")
_WORD = re.compile(r"[A-Za-z_][\w.\-]*")


def numbers(node: Node, key: str) -> list[int]:
    """The numbers in an attribute like {1,2}, none where it is missing."""
    return [int(found) for found in _NUMBER.findall(node.attributes.get(key, ""))]


def names(node: Node, key: str) -> list[str]:
    """The names in an attribute like {%a, %b} or %a."""
    return _WORD.findall(node.attributes.get(key, ""))


def one_name(node: Node, key: str) -> str:
    found = names(node, key)
    if len(found) != 1:
        raise Fault(
            f"{node.name}: expected {key}=COMPUTATION, found {node.attributes.get(key, 'nothing')[:40]!r}"
        )
    return found[0]


def dimension(node: Node, shape: Array, axis: int, key: str) -> int:
    """The size of a shape along an axis that an attribute names."""
    if not 0 <= axis < len(shape.dims):
        raise Fault(f"{node.name}: {key}: expected an axis below {len(shape.dims)}, found {axis}")
    return shape.dims[axis]


def operand(node: Node, operands: list[Node], position: int) -> Node:
    if not 0 <= position < len(operands):
        raise Fault(
            f"{node.name}: expected at least {max(position, 0) + 1} operands of {node.opcode}, found {len(operands)}"
        )
    return operands[position]


def array(node: Node) -> Array:
    """The shape of an array; of several results the largest."""
    found = leaves(node.shape)
    return max(found, key=lambda leaf: leaf.elements) if found else Array(0, (0,))


_CYCLES = re.compile(r'"estimated_cycles":"?(\d{1,15})')
_SCRATCH = re.compile(r'"used_scoped_memory_configs":\[([^\]]*)\]')
_IN_VMEM = re.compile(r'"memory_space":"?1"?,"offset":"?(\d{1,15})"?,"size":"?(\d{1,15})')


def cycles_of(node: Node) -> int:
    """The cycles that the compiler estimates of a node; 0 where it states none."""
    found = _CYCLES.search(node.attributes.get("backend_config", ""))
    return int(found[1]) if found else 0


def scratch_of(node: Node) -> int:
    """Bytes of fast memory, from its beginning, that the compiler keeps for the inside of a node."""
    found = _SCRATCH.search(node.attributes.get("backend_config", ""))
    return max((int(at) + int(size) for at, size in _IN_VMEM.findall(found[1])), default=0) if found else 0
