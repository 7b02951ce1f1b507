"""A training step by its name or from a file."""

from __future__ import annotations

from functools import cache

from egrl_training.steps import read_shipped, step_names
from egrl_training.steps.json_file import from_json, to_json
from egrl_training.steps.step import TrainingStep
from workloads.errors import InputError
from workloads.files import PACKED, check_values, pack, read_bytes, unpack
from workloads.text import one_of

MAX_FILE_BYTES = 1 << 29
"""Largest file, unpacked."""
ENDINGS = (".json", ".json.gz", PACKED)


def load_training(name_or_file: str) -> TrainingStep:
    """The training step called `name_or_file`: a shipped one, or the one in that .json, .json.gz or .json.xz file.

    Raises:
        InputError: neither a known name nor a readable file, or the file's step is not sound; one line.
    """
    if name_or_file in step_names():
        return _load_shipped(name_or_file)
    if not name_or_file.lower().endswith(ENDINGS):
        otherwise = f" or a file of a training step ({', '.join(ENDINGS)})"
        raise InputError(f"--workload: {one_of(name_or_file, step_names(), otherwise)}")
    return _parse(read_bytes(name_or_file, "a training step", MAX_FILE_BYTES), name_or_file)


def describe(step: TrainingStep) -> dict[str, float]:
    """Numbers of ops, values and values with a decision, bytes of these, and seconds if each op runs once."""
    return {
        "ops": len(step.ops),
        "values": len(step.values),
        "candidates": len(step.candidates),
        "candidate_bytes": sum(step.values[number].size_bytes for number in step.candidates),
        "seconds": sum(op.seconds for op in step.ops),
    }


def packed(step: TrainingStep) -> bytes:
    """The step as a .json.gz file that `load_training` reads as an equal one."""
    return pack(to_json(step).encode())


@cache
def _load_shipped(name: str) -> TrainingStep:
    return _parse(read_shipped(name), f"{name}{PACKED}")


def _parse(data: bytes, where: str) -> TrainingStep:
    plain = unpack(data, where, MAX_FILE_BYTES)
    if plain is not data:
        check_values(plain, len(data), where)
    try:
        text = plain.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{where}: expected JSON in UTF-8, found other bytes at offset {error.start}"
        ) from None
    return from_json(text, where)
