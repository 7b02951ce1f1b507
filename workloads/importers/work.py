"""What kind of op a node is, its matrix products as one batch, and its work for the vector unit."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from math import prod

from workloads.importers.contraction import agree, as_one, contract, einsum, matmul, summed
from workloads.importers.fold import Folded
from workloads.importers.ir import Body, Node, Shape, Tensor
from workloads.importers.vocabulary import (
    CONVOLUTIONS,
    GLOBAL_POOLS,
    KINDS,
    LOOKUPS,
    MOVERS,
    PARTS,
    PASSES,
    POOLS,
    PRODUCTS,
    RECURRENT,
    REDUCTIONS,
    TRANSFORMS,
    is_known,
)
from workloads.workload import Gemm
from workloads.zoo.vector_ops import VECTOR_OPS

GATE_OPS = 6
"""Vector operations per gate and element of a recurrent cell: a sigmoid or tanh, a product and a sum (*assumption*)."""


@dataclass(frozen=True)
class Window:
    """Kernel (x, y), and the largest stride, padding and dilation of any axis; 0 where there is no window."""

    kernel: tuple[int, int] = (0, 0)
    stride: int = 0
    pad: int = 0
    dilation: int = 0
    groups: int = 0


def kind_of(node: Node, folded: Folded, is_image: Callable[[str], bool]) -> str:
    """The kind of op, of `workloads.workload.KINDS`."""
    op, tensors = node.op, folded.graph.tensors
    if op in CONVOLUTIONS:
        groups, channels = node.integer("group", 1), (tensors[node.inputs[0]].shape or (0, 0))[1:2]
        outputs = (tensors[node.outputs[0]].shape or (0, 0))[1:2]
        return "depthwise_conv" if groups > 1 and (groups,) == channels == outputs else "conv"
    if node.body is not None:
        shapes = folded.shape_of
        return "recurrent" if any(gemm_of(each, shapes) for each in node.body.nodes) else "other"
    if op in PRODUCTS:
        factors = node.inputs if op == "Einsum" else node.inputs[:2]
        constant = any(folded.is_constant(name) for name in factors if name)
        return "matmul" if constant and op != "Attention" else "attention_matmul"
    if op in LOOKUPS and folded.is_constant(node.inputs[0]):
        return "embedding"
    if op in REDUCTIONS or op in GLOBAL_POOLS:
        spatial = is_image(node.inputs[0]) and len(tensors[node.outputs[0]].shape or ()) in (2, 4)
        return "pool" if spatial or op in GLOBAL_POOLS else "reduce"
    return KINDS.get(op, "other")


def vector_ops(node: Node, cluster: Sequence[Node], folded: Folded) -> int:
    """Element operations of one node of those that run as one op."""
    tensors, op = folded.graph.tensors, node.op
    outputs = sum(folded.written(name) for name in node.outputs if name)
    inputs = max((tensors[name].elements for name in node.inputs if name), default=0)
    if node.body is not None:
        return node.body.times * sum(vector_ops(each, (each,), folded) for each in node.body.nodes)
    if op in PRODUCTS or op in CONVOLUTIONS:
        return _beside_products(node, folded)
    if is_bias(node, cluster, folded):
        return 0
    if op in PASSES:
        return PASSES[op] * outputs
    if op in TRANSFORMS:
        return _fourier(node, folded)
    if op in POOLS:
        return tensors[node.outputs[0]].elements * prod(node.integers("kernel_shape"))
    if op in REDUCTIONS or op in GLOBAL_POOLS:
        return inputs
    if op in RECURRENT:
        return GATE_OPS * RECURRENT[op] * tensors[node.outputs[0] or node.inputs[0]].elements
    if op == "Gather":
        return VECTOR_OPS["copy"] * max(looked_up(node, folded), outputs)
    return VECTOR_OPS["copy"] * (outputs if op in MOVERS else max(inputs, outputs))


def _fourier(node: Node, folded: Folded) -> int:
    """Element operations of a Fourier transform. ONNX has pairs of numbers; a front end that has complex ones says over
    how many a transform runs, half of which are on the other side where one side is real."""
    made, read = folded.shape_of(node.outputs[0]), folded.shape_of(node.inputs[0])
    points, pick = node.integer("points", 0), max if node.op == "STFT" else min
    work = 5 * pick(prod(made), prod(read)) if points else 5 * prod(made) // 2
    return work * max(1, (points or max(made[:-1], default=1)).bit_length() - 1)


def looked_up(node: Node, folded: Folded) -> int:
    """Elements of its table that a look-up reads: those that it gives, or all rows of bags that it adds up."""
    if node.integer("in_bags", 0):
        return prod((*folded.shape_of(node.inputs[1]), *folded.shape_of(node.inputs[0])[1:]))
    return folded.graph.tensors[node.outputs[0]].elements


def elements_read(node: Node, name: str, folded: Folded) -> int | None:
    """Elements that a node reads of the tensor called `name` where data say which; None: all of them."""
    if node.body is not None:
        return _read_in_loop(node.body, name, folded)
    at = node.inputs.index(name)
    if at == 0 and node.op in LOOKUPS:
        return looked_up(node, folded)
    if at == 0 and node.op in PARTS:
        return sum(folded.graph.tensors[output].elements for output in node.outputs if output)
    rows = dict(zip(node.integers("tables"), node.integers("rows"), strict=False))
    if at in rows:
        return rows[at] * folded.shape_of(name)[-1]
    if node.op == "RotaryEmbedding" and at in (1, 2) and node.input(3):
        return _positions(node, folded) * folded.shape_of(name)[-1]
    return None


def times_read(node: Node, name: str, folded: Folded) -> float:
    """How often an inference reads a constant that a node holds, from its memory: once, or the rows that it looks up.

    What works in steps reads its matrices in each of them. What a loop is handed, or takes slices of, it reads once.
    """
    if node.body is not None:
        inside = [
            times_read(each, read, folded)
            for each in node.body.nodes
            for read in dict.fromkeys(each.inputs)
            if read and folded.part(read).base == folded.part(name).base
        ]
        # Nodes of one trip that read the same share it.
        return node.body.times * min(max(1.0, *inside), sum(inside)) if inside else 1.0
    if node.op in RECURRENT:
        at = node.inputs.index(name)
        return 1.0 if at in STATES else float(steps_of(node, folded.shape_of))
    elements = elements_read(node, name, folded)
    return 1.0 if elements is None else min(1.0, elements / max(1, folded.graph.tensors[name].kept))


def _read_in_loop(body: Body, name: str, folded: Folded) -> int | None:
    """The same of the nodes that run in each trip."""
    total = 0
    for node in body.nodes:
        for read in (each for each in node.inputs if each and folded.part(each).base == name):
            elements = elements_read(node, read, folded)
            if elements is None:
                return None
            total += elements
    return body.times * total if total else None


def _positions(rotary: Node, folded: Folded) -> int:
    """Places that a rotary embedding looks up: one for each token, or for each of a sequence that begins at a place."""
    places, tokens = folded.shape_of(rotary.inputs[3]), folded.shape_of(rotary.inputs[0])
    if len(places) > 1:
        return prod(places)
    return tokens[-2] if len(tokens) > 2 else 1


def _beside_products(node: Node, folded: Folded) -> int:
    """Element operations of a product: sums that Einsum takes before it, the softmax of attention."""
    if node.op == "Einsum":
        shapes = [folded.shape_of(name) for name in node.inputs]
        sums = summed(*einsum(node.text("equation"), shapes)) if products_of(node, folded.shape_of) else 0
        return sums if sums or len(shapes) > 1 else prod(shapes[0])
    if node.op == "Attention":
        scores = gemm_of(node, folded.shape_of) or Gemm(0, 0, 0, 0)
        passes = VECTOR_OPS["scale"] + VECTOR_OPS["softmax"]
        return passes * scores.groups * scores.rows * scores.cols
    return 0


def is_bias(node: Node, cluster: Sequence[Node], folded: Folded) -> bool:
    """Whether a node in the tail of a convolution or product is a batch norm that its weights take in, or adds a
    constant of at most a number a feature. A larger constant (a table of positions, say) is one that the accumulators
    cannot hold."""
    head = cluster[0]
    if node is head or head.op not in CONVOLUTIONS | PRODUCTS:
        return False
    if node.op == "BatchNormalization":
        return _is_in_weights(node, cluster, folded)
    return node.op == "Add" and any(_is_a_feature(name, head, folded) for name in node.inputs if name)


def _is_in_weights(norm: Node, cluster: Sequence[Node], folded: Folded) -> bool:
    """Whether a batch norm only scales and shifts what constant weights give: it has fixed statistics, a number a
    feature, and nothing but biases before it; nothing else reads what these give."""
    head, place = cluster[0], cluster.index(norm)
    between, given = cluster[1:place], {name for each in cluster[:place] for name in each.outputs}
    later = (folded.part(name).base for each in cluster[place + 1 :] for name in each.inputs if name)
    weights = head.inputs if head.op == "Einsum" else head.inputs[:2]
    return (
        head.op != "Attention"
        and any(folded.is_constant(name) for name in weights if name)
        and not norm.integer("training_mode", 0)
        and all(_is_a_feature(name, head, folded) for name in norm.inputs[1:] if name)
        and all(is_bias(each, cluster, folded) for each in between)
        and given.isdisjoint(later)
    )


def _is_a_feature(name: str, head: Node, folded: Folded) -> bool:
    """Whether a tensor is a constant of at most a number a feature."""
    tensor = folded.graph.tensors[name]
    return tensor.constant and tensor.kept <= _features(head, folded)


def _features(head: Node, folded: Folded) -> int:
    """Channels of a convolution; of a product, places along the axes that its result has of its weight, or along the
    last axis where it has none."""
    shape = folded.graph.tensors[head.outputs[0]].shape or ()
    if head.op in CONVOLUTIONS:
        return prod(shape[1:2])
    gemm = gemm_of(head, folded.shape_of)
    constant = [folded.is_constant(name) for name in head.inputs[:2] if name]
    if gemm is None or True not in constant:
        return prod(shape[-1:])
    return gemm.groups * (gemm.cols if constant[-1] else gemm.rows)


def window_of(node: Node, folded: Folded) -> Window:
    """The window of a convolution or a pooling."""
    if node.op not in CONVOLUTIONS and node.op not in POOLS:
        return Window()
    kernel = node.integers("kernel_shape")
    if not kernel and node.op in CONVOLUTIONS:
        kernel = (folded.graph.tensors[node.inputs[1]].shape or ())[2:]
    width, height = (kernel[-1] if kernel else 1), prod(kernel[:-1])
    return Window(
        (max(0, width), max(0, height)),
        max((1, *node.integers("strides"))),
        max((0, *node.integers("pads"))),
        max((1, *node.integers("dilations"))),
        max(1, node.integer("group", 1)) if node.op in CONVOLUTIONS else 0,
    )


ShapeOf = Callable[[str], Shape]


def gemm_of(node: Node, shape: ShapeOf) -> Gemm | None:
    """The products of a node as one batch, `shape` giving a tensor's shape by name; None where it has none, they are
    empty, or its shapes do not fit each other."""
    return as_one(products_of(node, shape) or ())


def products_of(node: Node, shape: ShapeOf) -> list[Gemm] | None:
    """The products of a node, one after another; None where its attributes and shapes do not say them."""
    if node.body is not None:
        found = [products_of(each, shape) for each in node.body.nodes]
        known = [gemm for products in found for gemm in products or ()]
        times = node.body.times
        return None if None in found else [replace(gemm, groups=times * gemm.groups) for gemm in known]
    if len(sizes := node.integers("products")) == 4:  # a front end has found them
        return [Gemm(*sizes)] if min(sizes) > 0 else []
    find = _PRODUCTS.get(node.op)
    try:
        return find(node, shape) if find is not None else []
    except (IndexError, KeyError, ValueError, ZeroDivisionError):
        return None


def dearest(branches: Sequence[Sequence[Node]], tensors: Mapping[str, Tensor]) -> int:
    """Which of several lists of nodes has the most products; of equal ones that which reads the most."""

    def work(nodes: Sequence[Node]) -> tuple[int, int]:
        found = (products_of(node, lambda name: tensors[name].shape or ()) or () for node in nodes)
        read = (tensors[name].elements for node in nodes for name in node.inputs if name)
        return sum(gemm.macs for gemms in found for gemm in gemms), sum(read)

    return max(range(len(branches)), key=lambda at: work(branches[at]))


def unknown_work(node: Node, folded: Folded, guessed: Container[str]) -> list[str]:
    """What of a node nobody can count: its op, or those inside a loop; `guessed` are tensors of unknown shape."""
    if node.body is not None:
        inside = [kind for each in node.body.nodes for kind in unknown_work(each, folded, guessed)]
        return inside if node.body.trips is not None else [f"{node.op} of unknown length", *inside]
    if not is_known(node.op):
        return [node.op]
    products = products_of(node, folded.shape_of)
    if products is None and not any(name in guessed for name in node.inputs):
        return [f"{node.op} of shapes that do not fit"]
    unknown = any(name in guessed for name in (*node.inputs, *node.outputs))
    return [f"{node.op} of unknown size"] if products != [] and unknown else []


def has_matrices(node: Node, folded: Folded, guessed: Container[str]) -> bool:
    """Whether a node of unknown work could multiply matrices, or does so and its size is guessed."""
    if node.body is not None:
        return any(
            has_matrices(each, folded, guessed)
            for each in node.body.nodes
            if node.body.trips is None or unknown_work(each, folded, guessed)
        )
    if products_of(node, folded.shape_of) != []:
        return True
    if is_known(node.op):
        return False
    shapes = [(folded.is_constant(name), folded.shape_of(name)) for name in node.inputs if name]
    matrices = [constant for constant, shape in shapes if sum(size > 1 for size in shape) > 1]
    return any(matrices) or len(matrices) > 1


def _convolution(node: Node, shape: ShapeOf) -> list[Gemm]:
    """Every pixel of the result is a row of patches; of a transposed one every pixel of the image makes a patch."""
    image, weight, groups = shape(node.inputs[0]), shape(node.inputs[1]), max(1, node.integer("group", 1))
    is_turned, axes = node.op == "ConvTranspose", len(weight) - 2
    agree(*image[-axes - 1 :][:1], weight[0] if is_turned else groups * weight[1])
    places = image if is_turned else shape(node.outputs[0])
    pixels, patch = prod(places[: -axes - 1]) * prod(places[-axes:]), prod(weight[1:])
    cols, reduction = (patch, weight[0] // groups) if is_turned else (weight[0] // groups, patch)
    return [Gemm(groups, pixels, cols, reduction)]


def _matmul(node: Node, shape: ShapeOf) -> list[Gemm]:
    a, b = shape(node.inputs[0]), shape(node.inputs[1])
    a, b = (a[::-1] if node.integer("transA", 0) else a), (b[::-1] if node.integer("transB", 0) else b)
    return contract(*matmul(a, b))


def _einsum(node: Node, shape: ShapeOf) -> list[Gemm]:
    return contract(*einsum(node.text("equation"), [shape(name) for name in node.inputs]))


def _attention(node: Node, shape: ShapeOf) -> list[Gemm]:
    """Scores and context of scaled dot-product attention: as many columns as keys, both reductions added. A cache of
    keys stands before those of this inference."""
    query, key, value = (shape(name) for name in node.inputs[:3])
    keys = node.integer("keys", 0) or key[-2] + (shape(node.input(4))[-2] if node.input(4) else 0)
    if len(query) == 3 and (heads := node.integer("q_num_heads", 0)) > 0:
        pairs = max(1, node.integer("kv_num_heads", heads))
        value_size = value[-1] if len(value) > 3 else value[2] // pairs
        return [Gemm(query[0] * heads, query[1], keys, query[2] // heads + value_size)]
    # An axis of size 1 is repeated for the others.
    batches = (reversed(each[:-2]) for each in (query, key, value))
    groups = prod(min(sizes) and max(sizes) for sizes in zip_longest(*batches, fillvalue=1))
    return [Gemm(groups, query[-2], keys, query[-1] + value[-1])]


STATES = (5, 6)
"""Where the states of a recurrent op stand among its inputs."""


def steps_of(node: Node, shape: ShapeOf) -> int:
    """How many steps a recurrent op takes one after another: a front end has said it, or its input is [steps, batch,
    features], or [batch, steps, features] with `layout`."""
    sizes = shape(node.inputs[0])
    if steps := node.integer("steps", 0):
        return steps
    return max(1, sizes[1 if node.integer("layout", 0) else 0]) if len(sizes) > 1 else 1


def _recurrent(node: Node, shape: ShapeOf) -> list[Gemm]:
    """Every step multiplies every matrix: ONNX has those of both directions in one tensor, PyTorch a tensor each."""
    sizes, weights = (
        shape(node.inputs[0]),
        [shape(name) for name in (*node.inputs[1:5], *node.inputs[7:]) if name],
    )
    matrices = [(1, *weight) for weight in weights if len(weight) == 2]
    if len(weights[0]) == 3:
        agree(sizes[-1], weights[0][2])
        matrices = [(w[0], w[1], w[2]) for w in weights[:2]]
    steps, rows = steps_of(node, shape), prod(sizes[:-1])
    if rows % steps:  # sequences of different lengths, packed
        steps = 1
    return [Gemm(steps * both, rows // steps, cols, reduction) for both, cols, reduction in matrices]


_PRODUCTS: dict[str, Callable[[Node, ShapeOf], list[Gemm]]] = {
    "Conv": _convolution,
    "DeformConv": _convolution,
    "ConvTranspose": _convolution,
    "Gemm": _matmul,
    "MatMul": _matmul,
    "Einsum": _einsum,
    "Attention": _attention,
    **dict.fromkeys(RECURRENT, _recurrent),
}
