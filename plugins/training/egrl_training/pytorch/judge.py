"""Proves of the two graphs that will run that they compute what the joint graph computes. It imports nothing of ours.

Each graph runs on *terms* instead of numbers: what an op returns is the op with the terms of what it reads, and equal
terms are equal numbers. What tensors show lies in *storages*: a view is the way to its storage, an op that changes a
tensor in place gives the storage another term, and to read is to look up what the storage holds at that moment. So a
value that is read before or after a change is another term. The joint graph runs once, as PyTorch made it; then the
forward graph, the changes that PyTorch makes between the passes, and the backward graph, on the same storages. Results,
gradients and the tensors that are given must hold the same terms in the end, and random numbers must be drawn in the
same order, each once. Copies keep their term; an op that nobody knows is taken to draw random numbers.

It does not prove that an op of PyTorch does what its schema says, nor anything of what inductor makes of the graphs.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import fx
from torch.utils._pytree import tree_leaves

SAME = frozenset({"aten::clone", "egrl::to_host", "egrl::from_host"})
"""Ops that return new memory with the same content."""
SHOWN_AS_IT_IS = frozenset({"aten::detach", "aten::alias", "aten::lift_fresh"})
"""Views that show all of what they are given, as it is."""
SILENT_VIEWS = frozenset(
    {"aten::_unsafe_view", "aten::_reshape_alias", "aten::unsafe_chunk", "aten::unsafe_split"}
    | {"aten::unsafe_split_with_sizes"}
)
"""Views whose schema does not say so."""
NORM = "aten._native_batch_norm_legit_functional.default"
NORM_ALONE = "aten._native_batch_norm_legit.no_stats"
"""A batch norm, and one without running statistics, whose first three results are the same in training."""
IN_TRAINING = {"aten::_native_batch_norm_legit_functional": 5, "aten::native_batch_norm_backward": 7}
"""Which argument says that they are in training; then the second does not read its statistics, arguments 3 and 4."""
KNOWN = frozenset({"aten", "prims", "inductor_prims", "quantized_decomposed", "egrl"})
"""Namespaces of ops whose tags and schemas are trusted."""


class WrongGraphsError(Exception):
    """The graphs compute something else than the joint graph, as far as can be proved; the message says what."""


class _Shown(NamedTuple):
    """What a node shows: a storage, and how, as a tuple of views."""

    storage: int
    path: tuple[Any, ...] = ()


class _Terms:
    """Terms by what they are made of: equal ones have the same number."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._made_of: list[Any] = []

    def __call__(self, *made_of: Any) -> int:
        number = self._numbers.setdefault(made_of, len(self._made_of))
        if number == len(self._made_of):
            self._made_of.append(made_of)
        return number

    def made_of(self, term: int) -> Any:
        return self._made_of[term]

    def given(self, term: int) -> set[str]:
        """The names of the given tensors whose first content a term is made of."""
        found, seen, waiting = set(), set(), [term]
        while waiting:
            number = waiting.pop()
            if number in seen:
                continue
            seen.add(number)
            made_of = self._made_of[number]
            if made_of[0] == "given":
                found.add(made_of[1])
            waiting += _numbers_in(made_of)
        return found


class _Number(int):
    """A term within another."""


def _numbers_in(made_of: Any) -> list[int]:
    if isinstance(made_of, _Number):
        return [int(made_of)]
    return [n for each in made_of for n in _numbers_in(each)] if isinstance(made_of, tuple) else []


class _Machine:
    """Runs graphs on terms.

    Attributes:
        memory: for each storage its term.
        drawn: the names of the ops that draw random numbers, as they ran.
        constants: what the attributes show that graphs name.
    """

    def __init__(self, terms: _Terms) -> None:
        self.terms, self.memory, self.drawn = terms, list[int](), list[str]()
        self.constants: dict[str, _Shown] = {}

    def new(self, term: int) -> _Shown:
        self.memory.append(term)
        return _Shown(len(self.memory) - 1)

    def content(self, shown: Any) -> Any:
        """The term of what is shown now; of anything else a thing that equals what is equal."""
        if isinstance(shown, _Shown):
            term = self.memory[shown.storage]
            return _Number(self.terms("view", _Number(term), shown.path) if shown.path else term)
        if isinstance(shown, list | tuple):
            return tuple(self.content(each) for each in shown)
        if isinstance(shown, dict):
            return tuple((key, self.content(each)) for key, each in sorted(shown.items()))
        if isinstance(shown, slice):
            return ("slice", *(self.content(each) for each in (shown.start, shown.stop, shown.step)))
        return (type(shown).__name__, repr(shown))

    def run(self, graph: fx.Graph, given: dict[fx.Node, Any]) -> list[Any]:
        """What a graph returns when it is given these; each None or what a node shows."""
        env: dict[fx.Node, Any] = dict(given)
        for node in graph.nodes:
            if node.op == "output":
                return list(fx.map_arg(node.args[0], env.__getitem__))
            if node in env:
                continue
            if node.op == "get_attr":
                name = str(node.target)
                if name not in self.constants:
                    self.constants[name] = self.new(self.terms("constant", name))
                env[node] = self.constants[name]
            elif node.op == "call_function":
                args, kwargs = fx.map_arg((node.args, node.kwargs), env.__getitem__)
                env[node] = self._op(node, args, kwargs)
            else:
                raise WrongGraphsError(f"{node.name} is read, which nothing gives")
        raise WrongGraphsError("a graph returns nothing")

    def _op(self, node: fx.Node, args: Any, kwargs: Any) -> Any:
        target = node.target
        if target is operator.getitem:
            return self._item(args[0], args[1])
        if not isinstance(target, torch._ops.OpOverload):
            return self._fresh(node, args, kwargs, draws=not _is_plain(target))
        name = target._schema.name
        if name in SAME:
            return self.new(self.content(args[0]))
        if name in IN_TRAINING and args[IN_TRAINING[name]] is True:
            if str(target) == NORM and _one_type(node):
                return self._norm(node, args, kwargs)
            if str(target) != NORM:
                args = (*args[:3], None, None, *args[5:])
        written = _written(target, args, kwargs)
        if written:
            return self._write(node, args, kwargs, written)
        if _is_view(target) and isinstance(args[0], _Shown):
            if name in SHOWN_AS_IT_IS:
                return args[0]
            rest = self.content((str(target), args[1:], dict(kwargs), _layout(node)))
            return _Shown(args[0].storage, (*args[0].path, rest))
        return self._fresh(node, args, kwargs, draws=_draws(target, args, kwargs))

    def _norm(self, node: fx.Node, args: Any, kwargs: Any) -> _Shown:
        """A batch norm in training: what it returns first is that of the same norm without running statistics."""
        alone = (*args[:3], *args[5:])
        first = self.terms(NORM_ALONE, self.content(alone), self.content(dict(kwargs)), ())
        rest = self.terms(str(node.target), self.content(args), self.content(dict(kwargs)), ())
        return self.new(self.terms("norm", _Number(first), _Number(rest)))

    def _item(self, source: Any, number: Any) -> Any:
        """An item of what an op returns: of several views one more step of the way, else memory of its own."""
        if isinstance(source, _Shown) and source.path:
            return _Shown(source.storage, (*source.path, ("item", number)))
        made_of = self.terms.made_of(self.content(source))
        term = made_of[1 if number < 3 else 2] if made_of[0] == "norm" else self.content(source)
        return self.new(self.terms("item", term, self.content(number)))

    def _fresh(self, node: fx.Node, args: Any, kwargs: Any, draws: bool) -> _Shown:
        if draws:
            self.drawn.append(node.name)
        once = (node.name,) if draws else ()
        return self.new(self.terms(str(node.target), self.content(args), self.content(dict(kwargs)), once))

    def _write(self, node: fx.Node, args: Any, kwargs: Any, written: Sequence[_Shown]) -> Any:
        made = _Number(self.memory[self._fresh(node, args, kwargs, draws=False).storage])
        for number, shown in enumerate(written):
            before = _Number(self.memory[shown.storage])
            self.memory[shown.storage] = self.terms("write", before, shown.path, made, number)
        return written[0] if len(written) == 1 else self.new(made)


class Meaning:
    """What a joint graph computes; the graph may be changed afterwards."""

    def __init__(self, joint: fx.Graph, forward_outputs: int) -> None:
        """`joint` returns so many results of the forward pass, and then gradients."""
        self._outputs = forward_outputs
        self._terms = _Terms()
        self._names = [node.name for node in joint.find_nodes(op="placeholder")]
        machine = self._machine()
        given = {node: _Shown(number) for number, node in enumerate(joint.find_nodes(op="placeholder"))}
        returned = machine.run(joint, given)
        self._changed = _changed_outside(joint)
        self._change(machine, returned)
        self._returned = [machine.content(each) for each in returned]
        self._memory, self._drawn = machine.memory[: len(self._names)], machine.drawn
        self._constants = {name: machine.content(shown) for name, shown in machine.constants.items()}

    def _machine(self) -> _Machine:
        """A machine whose first storages hold what is given to the joint graph."""
        machine = _Machine(self._terms)
        for name in self._names:
            machine.new(self._terms("given", name))
        return machine

    def _change(self, machine: _Machine, results: Sequence[Any]) -> None:
        """What PyTorch copies to inputs after the forward pass."""
        for number, name in self._changed.items():
            machine.memory[self._names.index(name)] = machine.content(results[number])

    def check(self, forward: fx.Graph, backward: fx.Graph) -> None:
        """WrongGraphsError if the two graphs compute anything else."""
        machine = self._machine()
        given = {node: self._given(node) for node in forward.find_nodes(op="placeholder")}
        returned = machine.run(forward, given)
        results, saved = returned[: self._outputs], returned[self._outputs :]
        self._change(machine, results)
        found = [machine.content(each) for each in results]
        gradients = machine.run(backward, self._needed(forward, backward, saved))
        found += [machine.content(each) for each in gradients]
        self._compare(found, machine)

    def _given(self, node: fx.Node) -> _Shown:
        if node.name not in self._names:
            raise WrongGraphsError(f"the forward pass reads {node.name}, which is not given to it")
        return _Shown(self._names.index(node.name))

    def _needed(self, forward: fx.Graph, backward: fx.Graph, saved: Sequence[Any]) -> dict[fx.Node, Any]:
        """What the backward graph is given: tangents, and what is saved, by its place among tensors or numbers."""
        (output,) = forward.find_nodes(op="output")
        nodes: Any = output.args[0]
        kinds = [_is_tensor(node) for node in nodes[self._outputs :]]
        tensors = iter([each for each, is_tensor in zip(saved, kinds, strict=True) if is_tensor])
        numbers = iter([each for each, is_tensor in zip(saved, kinds, strict=True) if not is_tensor])
        needed: dict[fx.Node, Any] = {}
        tangents = [name for name in self._names if not name.startswith("primals")]
        for node in backward.find_nodes(op="placeholder"):
            if node.name in tangents:
                needed[node] = self._given(node)
                del tangents[: tangents.index(node.name) + 1]
                continue
            found = next(tensors if _is_tensor(node) else numbers, None)
            if found is None:
                raise WrongGraphsError(f"the backward pass reads {node.name}, which is not saved")
            needed[node] = found
        return needed

    def _compare(self, found: Sequence[Any], machine: _Machine) -> None:
        if len(found) != len(self._returned):
            raise WrongGraphsError(
                f"{len(found)} results and gradients are returned, not {len(self._returned)}"
            )
        for name, shown in machine.constants.items():
            if machine.content(shown) != self._constants.get(name):
                raise WrongGraphsError(f"the constant {name} does not hold in the end what it should")
        for number, (ours, wanted) in enumerate(zip(found, self._returned, strict=True)):
            if ours != wanted:
                at = number - self._outputs
                what = (
                    f"result {number} of the forward pass"
                    if at < 0
                    else f"the gradient of {self._primal(at)}"
                )
                raise WrongGraphsError(f"{what} is computed from other values{self._read_late(ours, wanted)}")
        for name, ours, wanted in zip(self._names, machine.memory, self._memory, strict=False):
            if ours != wanted:
                raise WrongGraphsError(f"{name} does not hold in the end what it should")
        if machine.drawn != self._drawn:
            wrong = [name for name in machine.drawn if machine.drawn.count(name) > 1]
            wrong += sorted(set(machine.drawn) ^ set(self._drawn))
            raise WrongGraphsError(
                f"random numbers are drawn in another order, or not once: {(wrong or machine.drawn)[0]}"
            )

    def _primal(self, number: int) -> str:
        primals = [name for name in self._names if "tangents" not in name]
        return primals[number] if number < len(primals) else f"input {number}"

    def _read_late(self, ours: Any, wanted: Any) -> str:
        """Which changed tensor is probably read at another moment, for people."""
        if not isinstance(ours, int) or not isinstance(wanted, int):
            return ""
        first, second = self._terms.given(ours), self._terms.given(wanted)
        changed = [n for n, name in enumerate(self._names) if self._memory[n] != self._terms("given", name)]
        names = [self._names[n] for n in changed if self._names[n] in first | second]
        return f": {', '.join(names[:3])} is read before or after its change" if names else ""


def _changed_outside(joint: fx.Graph) -> dict[int, str]:
    """Of each result that PyTorch copies to an input after the forward pass, the name of that input."""
    (output,) = joint.find_nodes(op="output")
    inputs = {
        repr(node.meta["desc"]): node.name
        for node in joint.find_nodes(op="placeholder")
        if "desc" in node.meta
    }
    outside = enumerate(output.meta.get("desc") or ())
    return {
        number: inputs[repr(desc.mutated_input)]
        for number, desc in outside
        if type(desc).__name__ == "InputMutationAOTOutput" and repr(desc.mutated_input) in inputs
    }


def _layout(node: fx.Node) -> Any:
    """What `as_strided` depends on beside the content of what it is given: how that lies in memory."""
    given: Any = node.args[0].meta.get("val") if isinstance(node.args[0], fx.Node) else None
    strided = "as_strided" in str(node.target) and isinstance(given, torch.Tensor)
    return (tuple(given.stride()), given.storage_offset()) if strided else ()


def _one_type(node: fx.Node) -> bool:
    """True if a norm's input and statistics are of one type: only then it returns the same without statistics."""
    given = [node.args[0], *node.args[3:5]]
    return len({each.meta["val"].dtype for each in given if isinstance(each, fx.Node)}) == 1


def _is_tensor(node: Any) -> bool:
    return isinstance(node, fx.Node) and isinstance(node.meta.get("val"), torch.Tensor)


def _is_plain(target: Any) -> bool:
    """True for arithmetic of Python on numbers."""
    return getattr(target, "__module__", "") in ("_operator", "math", "builtins")


def _is_view(target: torch._ops.OpOverload) -> bool:
    returned = [each.alias_info for each in target._schema.returns]
    return target._schema.name in SILENT_VIEWS or any(
        info is not None and not info.is_write for info in returned
    )


def _written(target: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> list[_Shown]:
    """What an op changes in place."""
    changed: list[Any] = []
    for number, argument in enumerate(target._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            changed.append(args[number] if number < len(args) else kwargs.get(argument.name))
    return [leaf for leaf in _leaves(changed) if isinstance(leaf, _Shown)]


def _leaves(tree: Any) -> Iterable[Any]:
    return tree_leaves(tree, is_leaf=lambda leaf: isinstance(leaf, _Shown))


def _draws(target: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """True if an op draws random numbers, or if nobody knows."""
    if target.namespace not in KNOWN:
        return torch.Tag.pointwise not in target.tags
    if torch.Tag.nondeterministic_seeded not in target.tags:
        return False
    for number, argument in enumerate(target._schema.arguments):
        if argument.name == "dropout_p":
            return bool((args[number] if number < len(args) else kwargs.get(argument.name, 0.0)) != 0.0)
    return True
