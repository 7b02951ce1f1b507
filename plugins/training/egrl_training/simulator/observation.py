"""What a policy sees of a training step: the values with a decision, as a graph.

Sizes, times and counts are log1p times a constant, so that policies can read other steps. An edge leads from a value to
one that is computed from it with no value with a decision between them.
"""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

from egrl_training.simulator.tables import Floats, Tables
from egrl_training.steps.step import TrainingStep

SCHEMA_VERSION, HOST_SCHEMA_VERSION = 401, 451
"""Without and with a host. Changes whenever a feature, its meaning or its scale changes; other problems' schemas have
other numbers."""
BYTES_SCALE = 1 / 24
"""log1p of bytes: 16 MiB -> 0.69, 1 GiB -> 0.87."""
SECONDS_SCALE = 1 / 16
"""log1p of nanoseconds: 10 us -> 0.58, 10 ms -> 1.01."""
COUNT_SCALE = 1 / 4
"""log1p of readers: 3 -> 0.35."""
KIND_COLUMNS = 8
"""Kinds are hashed into so many columns; kinds that share one cannot be told apart."""
MOST_EDGES_PER_NODE = 64
"""A value with more sources sees only the last of them."""


def features(step: TrainingStep, tables: Tables, limit_bytes: int) -> NDArray[np.float32]:
    """float32 [N, 7 + KIND_COLUMNS]: bytes, and as a share of the limit; seconds of the maker; readers in the forward
    and in the backward pass; position of the maker, and how far the first use in the backward pass is from it, as
    shares of the step; then the kind of the maker.

    With a host two more columns: seconds of a copy to it and back, 0 for what must stay on the device.
    """
    t = tables
    decided = np.flatnonzero(t.decision >= 0)
    size, maker = t.size_bytes[decided], t.maker[decided]
    reader = np.repeat(np.arange(len(t.phase)), np.diff(t.input_first))
    early = np.bincount(t.inputs[reader < t.turn], minlength=len(t.maker))[decided]
    late = np.bincount(t.inputs[reader >= t.turn], minlength=len(t.maker))[decided]
    first = np.full(len(t.maker), len(t.phase))
    np.minimum.at(first, t.inputs[reader >= t.turn], reader[reader >= t.turn])
    kind = np.zeros((len(decided), KIND_COLUMNS))
    columns = [zlib.crc32(step.ops[t.op[k]].kind.encode()) % KIND_COLUMNS for k in maker]
    kind[np.arange(len(decided)), columns] = 1
    own = [
        np.log1p(size) * BYTES_SCALE,
        size / max(limit_bytes, 1),
        np.log1p(t.seconds[maker] * 1e9) * SECONDS_SCALE,
        np.log1p(early) * COUNT_SCALE,
        np.log1p(late) * COUNT_SCALE,
        maker / len(t.phase),
        (first[decided] - maker) / len(t.phase),
    ]
    own += [np.log1p(seconds[decided] * 1e9) * SECONDS_SCALE for seconds in _host(t)]
    return np.concatenate([np.stack(own, axis=1), kind], axis=1).astype(np.float32)


def schema(tables: Tables) -> int:
    """The version of what is seen."""
    return HOST_SCHEMA_VERSION if _host(tables) else SCHEMA_VERSION


def _host(t: Tables) -> tuple[Floats, ...]:
    """float64 [S] each, seconds of copies both ways; nothing if no value may be kept on the host."""
    return (t.to_host_s, t.from_host_s) if t.to_host_s.any() else ()


def edge_index(tables: Tables) -> NDArray[np.int64]:
    """int64 [2, E]: (source, value) of every edge, by decision number."""
    t = tables
    sources: list[list[int]] = [[] for _ in range(len(t.maker))]  # of each storage, the decisions behind it
    edges: list[tuple[int, int]] = []
    for k in range(t.turn):
        behind: set[int] = set()
        for s in t.inputs[t.input_first[k] : t.input_first[k + 1]]:
            behind |= {int(t.decision[s])} if t.decision[s] >= 0 else set(sources[s])
        nearest = sorted(behind)[-MOST_EDGES_PER_NODE:]
        for s in t.outputs[t.output_first[k] : t.output_first[k + 1]]:
            sources[s] = nearest
            if t.decision[s] >= 0:
                edges += [(source, int(t.decision[s])) for source in nearest]
    return np.array(edges, np.int64).reshape(len(edges), 2).T.copy()
