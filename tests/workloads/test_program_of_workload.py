from __future__ import annotations

import pytest

from workloads.load import load, names
from workloads.programs.json_file import check
from workloads.programs.of_workload import program_of
from workloads.programs.program import NO_ALIAS, Program
from workloads.workload import Edge, Op, Workload
from workloads.workload import check as check_workload


def reads(program: Program, instruction: str) -> set[str]:
    return buffers(program, instruction, False)


def writes(program: Program, instruction: str) -> set[str]:
    return buffers(program, instruction, True)


def buffers(program: Program, instruction: str, is_output: bool) -> set[str]:
    at = [each.name for each in program.instructions].index(instruction)
    return {
        program.tensors[b.tensor].name for b in program if b.instruction == at and b.is_output == is_output
    }


@pytest.mark.parametrize("name", names())
def test_every_network_of_the_zoo_is_a_program_with_its_operations(name):
    net = load(name)
    forward, both = program_of(net), program_of(net, backward=True)
    assert check(forward) is forward
    assert check(both) is both
    assert forward.flops == 2 * net.macs + sum(op.vector_ops for op in net)
    assert 2 * 2.9 * net.macs < both.flops - sum(op.vector_ops for op in net) < 2 * 3.6 * net.macs
    assert sum(t.size_bytes for t in forward.tensors if t.name.endswith(".weight")) == sum(
        op.weight_bytes for op in net
    )


def test_forward_instructions_read_edges_weights_and_the_outside():
    net = load("resnet18")
    program = program_of(net)
    assert [each.name for each in program.instructions] == [op.name for op in net]
    first, second = net.ops[0], net.ops[1]
    assert reads(program, first.name) == {f"{first.name}.outside", f"{first.name}.weight"}
    assert second.inputs[0].source in reads(program, second.name)
    assert [t.name for t in program.tensors if t.leaves] == [op.name for op in net if op.is_output] or [
        net.ops[-1].name
    ]


def test_gradients_of_an_activation_with_two_readers_are_added_up():
    net = load("resnet18")
    program = program_of(net, backward=True)
    readers: dict[str, list[str]] = {}
    for op in net:
        for edge in op.inputs:
            readers.setdefault(edge.source, []).append(op.name)
    shared = next(name for name, found in readers.items() if len(found) == 2)
    parts = {f"{reader}.gradient_of.{shared}" for reader in readers[shared]}
    assert reads(program, f"{shared}.sum") == parts
    assert writes(program, f"{shared}.sum") == {f"{shared}.gradient"}
    assert f"{shared}.gradient" in reads(program, f"{shared}.grad_input")


def test_a_derivative_reads_what_it_depends_on():
    net = load("bert:layers=1")
    program = program_of(net, backward=True)
    dense = next(op for op in net if op.kind == "matmul" and op.weight_bytes and not op.vector_ops)
    product = next(op for op in net if op.kind == "attention_matmul")
    softmax = next(op for op in net if op.kind == "softmax")
    sources = {op.name: {edge.source for edge in op.inputs} for op in net}
    found = reads(program, f"{dense.name}.grad_input")
    assert f"{dense.name}.weight" in found
    assert not found & sources[dense.name]
    assert sources[dense.name] <= reads(program, f"{dense.name}.grad_weight")
    assert sources[product.name] <= reads(program, f"{product.name}.grad_input")
    assert sources[softmax.name] <= reads(program, f"{softmax.name}.grad_input")
    flops = {each.name: each.flops for each in program.instructions}
    assert product.gemm is not None
    assert flops[f"{product.name}.grad_input"] == 4 * product.gemm.macs + product.vector_ops


def test_a_weight_is_updated_in_place_after_its_last_reader():
    net = load("resnet18")
    name = net.ops[3].name
    program = program_of(net, backward=True)
    times = {each.name: at for at, each in enumerate(program.instructions)}
    assert times[f"{name}.grad_input"] < times[f"{name}.grad_weight"] < times[f"{name}.update"]
    group = [b for b in program if b.instruction == times[f"{name}.update"] and b.alias_id != NO_ALIAS]
    assert [program.tensors[b.tensor].name for b in group] == [f"{name}.weight", f"{name}.weight.new"]
    apart = program_of(net, backward=True, in_place=False)
    assert all(b.alias_id == NO_ALIAS for b in apart)
    assert len(apart) == len(program)


def test_nothing_before_the_first_weight_gets_a_gradient():
    net = load("resnet18")
    made = {each.name for each in program_of(net, backward=True).instructions}
    assert f"{net.ops[0].name}.grad_weight" in made
    assert f"{net.ops[0].name}.grad_input" not in made


def test_the_gradient_of_a_table_has_the_rows_that_were_read():
    net = load("bert")
    table = next(op for op in net if op.kind == "embedding" and op.weight_read_bytes < op.weight_bytes)
    program = program_of(net, backward=True)
    sizes = {t.name: t.size_bytes for t in program.tensors}
    assert sizes[f"{table.name}.weight.gradient"] == table.weight_read_bytes
    assert sizes[f"{table.name}.weight.new"] == table.weight_bytes


def test_ops_that_are_called_like_what_is_made_of_others_are_no_clash():
    """Every name that the program of a chain has is an op's name in the next one."""
    made = ["op"]
    for _ in range(2):
        net = chain_of(made)
        program = program_of(net, backward=True)
        assert set(made) < {each.name for each in program.tensors}
        assert set(made) < {each.name for each in program.instructions}
        names = [each.name for each in (*program.tensors, *program.instructions)]
        made = list(dict.fromkeys(names))
    assert {"op.weight", "op.outside", "op.loss", "op.weight_2", "op.outside_2", "op.loss_2"} < set(made)


def chain_of(names: list[str]) -> Workload:
    """Ops with weights, each of which reads all before it and is a result."""
    ops: list[Op] = []
    for name in names:
        edges = tuple(Edge(op.name, 4) for op in ops)
        ops.append(Op(name, "other", edges, (1, 1, 4), (1, 1, 4), 4, 4, 8, 8, is_output=True))
    return check_workload(Workload("chain", tuple(ops)))
