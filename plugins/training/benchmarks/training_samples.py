"""PyTorch's own samples of its operators and modules, trained with nothing kept that can be computed again.

    python -m benchmarks.training_samples {ops,inplace,modules} [--range A:B] [--samples 2] [--together 1]
        [--backend aot_eager]

The samples are those of PyTorch's tests (`torch.testing._internal`, which needs expecttest): inputs of every operator
with a gradient, of its variant in place, and of the modules of `torch.nn`, in training and not. Each is given numbers
that need a gradient; results, gradients, what was given, and the next random number are compared with eager mode. Of
several in one step (`--together`) each runs alone if the step is wrong. What differs is printed beside what plain
`torch.compile` does; the last line counts.
"""

from __future__ import annotations

import argparse
import logging
import signal
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import torch
import torch._inductor.config as inductor
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from egrl_training.pytorch.backend import PlannedBackend
from egrl_training.pytorch.partition import Cut

TOLERANCE = {"aot_eager": 1e-8, "inductor": 1e-5}
SECONDS = 120
"""Of one comparison."""
Compile = Callable[[Callable[..., Any]], Callable[..., Any]]


class Made(NamedTuple):
    """A sample that is ready to run.

    Attributes:
        function: of a number that is 1 and needs a gradient, to multiply inputs with; returns a tree of results.
        given: the tensors that it reads, changes or has gradients of.
    """

    function: Callable[[Tensor], Any]
    given: Sequence[Tensor]


class Sample(NamedTuple):
    """A name, and what makes the same inputs again and again."""

    name: str
    make: Callable[[], Made]


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def _spread(samples: Sequence[Any], most: int) -> list[Any]:
    """So many of some, over all of them."""
    return [samples[number * len(samples) // most] for number in range(min(most, len(samples)))]


def operators(in_place: bool, most: int) -> Iterator[Sample]:
    """Samples of the operators, or of their variants in place, in float64."""
    from torch.testing._internal import common_methods_invocations as invocations

    # random ones set the seed each time, which no graph can hold
    invocations.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)
    for op in invocations.op_db:
        call = op.inplace_variant if in_place else op.op
        if not op.supports_autograd or torch.float64 not in op.dtypes or call is None:
            continue
        name = f"{op.name}.{op.variant_test_name}".rstrip(".")
        try:
            samples = list(op.sample_inputs("cpu", torch.float64, requires_grad=True))
        except Exception as error:  # a library that is not there
            print(f"{name}: no samples: {type(error).__name__}", flush=True)
            continue
        for number, sample in enumerate(_spread(samples, most)):
            yield Sample(f"{name} [{number}]", lambda call=call, sample=sample: _of_operator(call, sample))


def _of_operator(call: Callable[..., Any], sample: Any) -> Made:
    """A call of an operator with copies of a sample's tensors, which keep what they share."""
    copies: dict[int, Tensor] = {}

    def copy(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        return copies.setdefault(id(leaf), leaf.detach().clone().requires_grad_(leaf.requires_grad))

    given = tree_map(copy, (sample.input, sample.args, sample.kwargs))

    def function(one: Tensor) -> Any:
        first, args, kwargs = tree_map(
            lambda leaf: (
                leaf * one.to(leaf.dtype) if isinstance(leaf, Tensor) and leaf.requires_grad else leaf
            ),
            given,
        )
        found = call(first, *args, **kwargs)
        return sample.output_process_fn_grad(found) if sample.output_process_fn_grad else found

    return Made(function, list(copies.values()))


def modules(most: int) -> Iterator[Sample]:
    """Samples of the modules of `torch.nn` in float64, in training and not."""
    from torch.testing._internal.common_modules import module_db

    for info in module_db:
        for training in (True, False):
            given = {"device": "cpu", "dtype": torch.float64, "requires_grad": True, "training": training}
            inputs = [each for each in info.module_inputs_func(info, **given) if each.forward_input]
            for number, each in enumerate(_spread(inputs, most)):
                name = f"{info.name} {'train' if training else 'eval'} [{number}]"
                yield Sample(name, lambda i=info, e=each, t=training: _of_module(i.module_cls, e, t))


def _of_module(kind: Any, given: Any, training: bool) -> Made:
    torch.manual_seed(1)
    module = kind(*given.constructor_input.args, **given.constructor_input.kwargs).double().train(training)

    def function(one: Tensor) -> Any:
        args, kwargs = tree_map(
            lambda leaf: (
                leaf.detach() * one if isinstance(leaf, Tensor) and leaf.is_floating_point() else leaf
            ),
            (given.forward_input.args, given.forward_input.kwargs),
        )
        return module(*args, **kwargs)

    return Made(function, [*module.parameters(), *module.buffers()])


def trained(samples: Sequence[Sample], wrap: Compile) -> list[Tensor]:
    """All that a user could look at after two steps of samples together."""
    torch._dynamo.reset()
    made = [sample.make() for sample in samples]
    one = torch.ones((), dtype=torch.float64, requires_grad=True)
    torch.manual_seed(0)

    def step(one: Tensor) -> tuple[Tensor, list[Tensor]]:
        loss, results = one.square(), []
        for function, _ in made:
            for result in _tensors(function(one)):
                if result.layout is not torch.strided:
                    continue
                if result.is_complex():
                    result = torch.view_as_real(result.resolve_conj())
                if result.is_floating_point() and result.requires_grad:
                    loss = loss + (result.double() * 0.5).sin().sum()
                results.append(result)
        return loss, results

    function, found = wrap(step), []
    given = [tensor for _, tensors in made for tensor in tensors]
    for _ in range(2):
        loss, results = function(one)
        loss.backward()
        found += [loss, *results, *given, *(each.grad for each in (one, *given) if each.grad is not None)]
        found = [each.detach().clone() for each in found]
    return [*found, torch.rand(1)]


def difference(found: Sequence[Tensor], wanted: Sequence[Tensor]) -> float:
    """The largest, over 1 or the largest number of a tensor; infinite if shapes, types or NaN differ."""
    if [(each.shape, each.dtype) for each in found] != [(each.shape, each.dtype) for each in wanted]:
        return float("inf")
    most = 0.0
    for pair in zip(found, wanted, strict=True):
        first, second = (each.to_dense() for each in pair)
        if not first.numel():
            continue
        if first.is_complex():
            first, second = (
                torch.view_as_real(first.resolve_conj()),
                torch.view_as_real(second.resolve_conj()),
            )
        first, second = first.double(), second.double()
        if not torch.equal(first.isnan(), second.isnan()):
            return float("inf")
        first, second = (each.nan_to_num(0.0, 1e9, -1e9) for each in (first, second))
        most = max(most, float((first - second).abs().max()) / max(1.0, float(second.abs().max())))
    return most


def limited(backend: str) -> Compile:
    """`torch.compile` with a plan that keeps nothing."""
    planned = PlannedBackend(backend, lambda joint: Cut(()), "samples", False)
    return lambda function: torch.compile(function, backend=planned, dynamic=False, fullgraph=True)


def outcome(samples: Sequence[Sample], backend: str) -> tuple[str, str]:
    """A word about samples in one step, and what was found; "no eager" if eager mode does not train them."""
    try:
        wanted = trained(samples, lambda function: function)
        if difference(trained(samples, lambda function: function), wanted):
            return "no eager", "two runs of eager mode differ"
    except TimeoutError:
        raise
    except Exception as error:
        return "no eager", f"{type(error).__name__}: {str(error).splitlines()[0][:100]}"

    def found(wrap: Compile) -> float | str:
        try:
            return difference(trained(samples, wrap), wanted)
        except TimeoutError:
            raise
        except Exception as error:
            return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:100]}"

    ours, most = found(limited(backend)), TOLERANCE[backend]
    if isinstance(ours, str) and ours.startswith(("Unsupported", "UserError")):
        return "no graph", ours
    if isinstance(ours, float) and ours <= most:
        return "right", ""
    plain = found(lambda function: torch.compile(function, backend=backend, dynamic=False, fullgraph=True))
    as_plain = not isinstance(plain, float) or plain > most
    return ("as plain" if as_plain else "WRONG"), f"{ours}; plain: {plain}"


def _times_out(*_: object) -> None:
    raise TimeoutError


def run(samples: Iterator[Sample], backend: str, together: int) -> Counter[str]:
    """Print what is not right, and count words."""
    signal.signal(signal.SIGALRM, _times_out)
    counts: Counter[str] = Counter()
    for group in iter(lambda: tuple(islice(samples, together)), ()):
        parts = [group]
        while parts:
            part = parts.pop(0)
            signal.alarm(SECONDS * len(part))
            try:
                word, detail = outcome(part, backend)
            except TimeoutError:
                word, detail = "too slow", ""
            finally:
                signal.alarm(0)
            if word == "right" or len(part) == 1:
                counts[word] += len(part)
                if word != "right":
                    print(f"{part[0].name}: {word} {detail}", flush=True)
            else:
                parts += [(each,) for each in part]
    return counts


def main() -> None:
    """Run the samples that the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("ops", "inplace", "modules"))
    parser.add_argument("--range", default="0:1000000", help="A:B, of the samples")
    parser.add_argument("--samples", type=int, default=2, help="of each operator or module")
    parser.add_argument("--together", type=int, default=1, help="samples in one step")
    parser.add_argument("--backend", default="aot_eager", choices=list(TOLERANCE))
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    torch._logging.set_logs(dynamo=logging.CRITICAL, aot=logging.CRITICAL, inductor=logging.CRITICAL)
    inductor.fallback_random = True  # random numbers as in eager mode
    every = (
        modules(asked.samples)
        if asked.what == "modules"
        else operators(asked.what == "inplace", asked.samples)
    )
    first, last = map(int, asked.range.split(":"))
    counts = run(islice(every, first, last), asked.backend, asked.together)
    print(", ".join(f"{count} {word}" for word, count in counts.items()), flush=True)


if __name__ == "__main__":
    main()
