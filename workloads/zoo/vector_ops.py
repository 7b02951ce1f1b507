"""What the vector unit does for an element of each kind of op."""

from __future__ import annotations

from types import MappingProxyType

VECTOR_OPS = MappingProxyType(
    {
        "relu": 1,
        "relu6": 2,
        "add": 1,
        "scale": 1,
        "batchnorm": 3,
        "mask": 1,
        "cast": 1,
        "copy": 1,
        "view": 0,
        "leaky": 2,
        "tanh": 4,
        "sigmoid": 4,
        "hardswish": 4,
        "swish": 5,
        "gate": 9,
        "gru": 11,
        "lstm": 24,
        "softmax": 5,
        "layernorm": 8,
        "rmsnorm": 4,
        "rotary": 3,
        "gelu": 8,
        "": 0,
    }
)
"""Element operations of the vector unit for each output element. *Assumption*: nobody publishes these counts.

They stand for the passes of a plain implementation: softmax = maximum, subtract, exponential, sum, divide;
layer normalisation = two sums, subtract, square, two scalings, shift and a shared root; RMS normalisation = square, sum
and two scalings; rotary embedding = two products and an add; GELU (tanh form) = a
cubic, a tanh and a product; swish = a sigmoid and a product; batchnorm = one that stands before its convolution
and cannot be folded, with its relu; gate (WaveNet) = a tanh, a sigmoid and a product. An
element of an LSTM's state takes three sigmoids, two tanhs, three products and an add, one of a GRU's update a sigmoid,
a tanh and three more. `copy` is a gather, slice, split, concatenation or transposition; `view` is a
reshape, which moves nothing. Max pooling costs its kernel area an output element, average pooling
one an input element. A bias fused into a convolution or a linear layer is added in the accumulators and
costs nothing.
"""
