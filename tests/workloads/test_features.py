from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads import zoo
from workloads.features import FEATURES, SCHEMA_VERSION, edge_index, raw_features, static_features
from workloads.workload import KINDS, Edge, ElementBytes, Gemm, Op, Workload
from workloads.zoo.cnn import resnet

TABLE_1 = (
    *("op_id", "weight_size", "ifm_x", "ifm_y", "ifm_z", "ofm_x", "ofm_y", "ofm_z", "ifm_size", "ofm_size"),
    *("n_ops_left", "n_w_left", "groups", "kernel_x", "kernel_y", "stride", "pad", "dilation", "batch"),
)


def raw_twin(workload: Workload) -> list[list[float]]:
    """Table 1, op by op, in plain Python."""
    table = []
    for i, op in enumerate(workload.ops):
        left = workload.ops[i:]
        conv = op.kind in ("conv", "depthwise_conv")
        table.append(
            [
                KINDS.index(op.kind),
                op.weight_bytes,
                *op.ifm,
                *op.ofm,
                math.prod(op.ifm),
                math.prod(op.ofm),
                len(left) - 1,
                sum(o.weight_bytes for o in left) / workload.element_bytes.weight,
                op.groups if conv else 0,
                op.kernel[0] if conv else 0,
                op.kernel[1] if conv else 0,
                op.stride if conv else 0,
                op.pad if conv else 0,
                op.dilation if conv else 0,
                op.batch,
            ]
        )
    return table


def scaled_twin(workload: Workload) -> list[list[float]]:
    divisors = [16, 16, *[8] * 6, 16, 16, 8, 16, 8, *[2] * 5, 4]
    return [
        [(value if column == 0 else math.log1p(value)) / divisors[column] for column, value in enumerate(row)]
        for row in raw_twin(workload)
    ]


def test_the_columns_are_those_of_table_1_in_its_order():
    assert FEATURES == TABLE_1
    assert SCHEMA_VERSION == 1


@pytest.mark.slow
@given(data=st.data())
def test_features_equal_a_plain_loop_over_the_ops(any_workload, data):
    workload = data.draw(any_workload)
    np.testing.assert_allclose(raw_features(workload), raw_twin(workload), rtol=1e-12)
    x = static_features(workload)
    assert x.dtype == np.float32
    assert x.shape == (len(workload), 19)
    np.testing.assert_allclose(x, scaled_twin(workload), rtol=1e-6)


@given(data=st.data())
def test_edges_equal_those_found_by_comparing_names(any_workload, data):
    workload = data.draw(any_workload)
    names = [op.name for op in workload]
    expected = [[names.index(e.source), i] for i, op in enumerate(workload) for e in op.inputs]
    edges = edge_index(workload)
    assert edges.dtype == np.int64
    assert edges.shape == (2, len(expected))
    assert edges.T.tolist() == expected
    assert (edges[0] < edges[1]).all()


@pytest.mark.parametrize("name", zoo.ZOO)
def test_features_of_real_networks_lie_between_0_and_2(name):
    x = static_features(zoo.builder_of(name)())
    assert np.isfinite(x).all()
    assert (x >= 0).all()
    assert x.max() < 2
    assert x.max() > 0.8


def test_features_do_not_depend_on_the_rest_of_the_network_but_for_what_is_left():
    net = resnet(18)
    cut = Workload("tail", tuple(replace(op, inputs=()) for op in net.ops[5:]))
    np.testing.assert_array_equal(static_features(cut), static_features(net)[5:])


def test_convolution_attributes_of_a_pooling_stay_unseen():
    net = resnet(50)
    row = raw_features(net)[net.index()["maxpool"]]
    assert net.ops[1].kernel == (3, 3)
    assert row[FEATURES.index("groups") : FEATURES.index("batch")].tolist() == [0] * 6


def test_the_weights_left_count_elements_not_bytes():
    op = Op("a", "conv", (), (1, 1, 1), (1, 1, 1), output_bytes=1, weight_bytes=40)
    net = Workload("two", (op, replace(op, name="b", inputs=(Edge("a", 1),))), ElementBytes(weight=4.0))
    assert raw_features(net)[:, FEATURES.index("n_w_left")].tolist() == [20, 10]
    assert raw_features(net)[:, FEATURES.index("n_ops_left")].tolist() == [1, 0]


@pytest.mark.exhaustive
def test_thirty_thousand_ops_take_less_than_a_second():
    ops = tuple(
        Op(
            f"op{i}",
            KINDS[i % len(KINDS)],
            tuple(Edge(f"op{j}", 4) for j in range(max(0, i - 3), i)),
            (4, 4, 4),
            (8, 8, 8),
            output_bytes=512,
            weight_bytes=i,
            gemm=Gemm(1, 2, 3, 4),
        )
        for i in range(30_000)
    )
    net = Workload("long", ops)
    started = time.process_time()
    x, edges = static_features(net), edge_index(net)
    assert time.process_time() - started < 10  # a quarter; what is quadratic takes minutes
    assert x.shape == (30_000, 19)
    assert edges.shape == (2, 3 * 30_000 - 6)
