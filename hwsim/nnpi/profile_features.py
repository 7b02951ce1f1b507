"""What a ranking policy sees of a profile: how long each op took in a mapping that was measured, and what would help.

A board differs from its chip file, and nobody says how. The profile of one mapping shows it, op by op: an op that took
as long as it computes has nothing to gain by faster memory, one that waited has. All are ratios, as those of
`hwsim.nnpi.place_features`: over what the roofline of the chip file says of that mapping, over the time that the op
computes, over the mean op. Nothing here asks the model of latency.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from hwsim.nnpi.place_features import FLOOR, log_ratio
from hwsim.nnpi.tables import WEIGHT, Tables, Tensors
from hwsim.problem import Mapping16, Profiles

Floats = NDArray[np.float64]

LEAST_S = 1e-12
"""Seconds below which no op is believed to run."""

MEANING: Mapping[str, str] = {
    "profiled": "1 if the time of its op was measured",
    "was_here": "1 if it was in this memory then",
    "measured_of_expected": "measured time of its op / time by the roofline, tensors where they were",
    "measured_of_compute": "measured time of its op / compute time of the op",
    "measured_of_mean": "measured time of its op / that of the mean op",
    "readers_of_compute": "measured_of_compute of the reader for which it is largest (activations)",
    "readers_of_expected": "measured_of_expected of the reader for which it is largest (activations)",
    "stall_saved": "measured time beyond compute time that its traffic could save here / mean op",
}
"""What each feature is, in order; ratios as base-2 logarithms / 4, but for the first two, which are 1 or 0."""
PROFILE_NAMES = tuple(MEANING)


def profile_features(
    tables: Tables, found: Tensors, mapping: Mapping16, profile: Profiles
) -> NDArray[np.float32]:
    """Float32 [T, L, G] of a mapping int16 [N, 2] and of the seconds float32 [N] that its ops took, NaN where unknown.

    Those of memory 0 are 0, and those of tensors whose op was not measured.
    """
    levels, ops = len(tables.capacity_bytes), len(tables.weight_bytes)
    out = np.zeros((len(found.op), levels, len(PROFILE_NAMES)), np.float32)
    known = np.isfinite(profile)
    if not known.any():
        return out
    reader = np.repeat(np.arange(ops), np.diff(tables.edge_start))
    compute = np.maximum(tables.compute_s + tables.launch_s, LEAST_S)
    expected = np.maximum(_expected(tables, mapping, reader), LEAST_S)
    mean = max(float(profile[known].mean(dtype=np.float64)), LEAST_S)
    took = np.maximum(np.where(known, profile, mean).astype(np.float64), LEAST_S)
    stall = np.where(known, np.maximum(took - compute, 0.0), 0.0)
    of_compute, of_expected = log_ratio(took / compute), log_ratio(took / expected)
    weight, seen = found.head == WEIGHT, known[found.op]
    columns: dict[str, Floats | NDArray[np.bool_] | float] = {
        "measured_of_expected": of_expected[found.op],
        "measured_of_compute": of_compute[found.op],
        "measured_of_mean": log_ratio(took / mean + FLOOR)[found.op],
        "readers_of_compute": np.where(weight, 0.0, _of_readers(tables, of_compute, known, reader)[found.op]),
        "readers_of_expected": np.where(
            weight, 0.0, _of_readers(tables, of_expected, known, reader)[found.op]
        ),
    }
    at = mapping[found.op, found.head]
    for level in range(1, levels):
        saved = _saved(tables, found, stall, reader, level)
        columns |= {"profiled": 1.0, "was_here": at == level, "stall_saved": log_ratio(saved / mean + FLOOR)}
        for number, name in enumerate(PROFILE_NAMES):
            out[:, level, number] = np.where(seen, columns[name], 0.0)
    return out


def _expected(tables: Tables, mapping: Mapping16, reader: NDArray[np.int64]) -> Floats:
    """Seconds float64 [N] of each op by the roofline alone: no weight is fetched ahead, nothing crosses a memory."""
    ops = np.arange(len(mapping))
    weight, home = mapping[:, 0], mapping[:, 1]
    traffic = np.zeros((len(mapping), len(tables.capacity_bytes)))
    traffic[ops, np.maximum(weight, 0)] += np.where(weight >= 0, tables.weight_read_bytes, 0)
    traffic[ops, np.maximum(home, 0)] += np.where(home >= 0, tables.written_bytes, 0)
    source = home[tables.edge_source]
    np.add.at(traffic, (reader, np.maximum(source, 0)), np.where(source >= 0, tables.edge_bytes, 0))
    traffic[:, 0] += tables.external_bytes
    return np.asarray(
        tables.launch_s + np.maximum(tables.compute_s, (traffic / tables.bandwidth_Bps).max(axis=1))
    )


def _of_readers(
    tables: Tables, values: Floats, known: NDArray[np.bool_], reader: NDArray[np.int64]
) -> Floats:
    """The largest of the values [N] of the measured readers of each op's output; 0 where there is none."""
    most = np.full(len(values), -np.inf)
    measured = known[reader]
    np.maximum.at(most, tables.edge_source[measured], values[reader[measured]])
    return np.where(np.isfinite(most), most, 0.0)


def _saved(tables: Tables, found: Tensors, stall: Floats, reader: NDArray[np.int64], level: int) -> Floats:
    """Seconds float64 [T] of the stalls [N] of the ops that touch a tensor which it would save in a memory, at most."""
    per_byte = 1 / tables.bandwidth_Bps[0] - 1 / tables.bandwidth_Bps[level]
    of_readers = np.zeros(len(stall))
    np.add.at(of_readers, tables.edge_source, np.minimum(tables.edge_bytes * per_byte, stall[reader]))
    weight, op = found.head == WEIGHT, found.op
    moved = np.where(weight, tables.weight_read_bytes[op], tables.written_bytes[op])
    own = np.minimum(moved * per_byte, stall[op])
    return own + np.where(weight, 0.0, of_readers[op])
