"""Checkpoints: a tree of dicts, lists, numbers, strings and arrays in one file, checked, free of code.

The format is safetensors: arrays as tensors, the tree as JSON in the file's metadata with each array replaced
by its number, and a SHA-256 over both. Nothing is executed on loading.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egrl.core import atomic
from workloads.errors import InputError
from workloads.files import read_bytes

KIND = "checkpoint"
VERSION = 9
KEPT = 2
COUNTED = ("evaluations", "settings", "chunks", "metrics_bytes", "metrics_sha256")
"""What a checkpoint says of the other files of its run."""
_FIELD = "egrl_checkpoint"
_NAME = re.compile(r"generation-(\d{8})\.safetensors")


class OutdatedError(InputError):
    """A checkpoint was made by an earlier version, from which a run cannot go on."""


def _pack(node: Any, arrays: dict[str, NDArray[Any]], path: str) -> Any:
    if isinstance(node, dict):
        for key in node:
            if not isinstance(key, str):
                raise ValueError(f"{path}: expected string keys, received {key!r}")
        return {"dict": {key: _pack(value, arrays, f"{path}.{key}") for key, value in node.items()}}
    if isinstance(node, list | tuple):
        return {"list": [_pack(value, arrays, f"{path}[{i}]") for i, value in enumerate(node)]}
    if node is None or isinstance(node, bool | int | float | str):
        return {"value": node}
    if isinstance(node, np.generic):
        return {"value": node.item()}
    if isinstance(node, np.ndarray) and node.dtype.kind in "US":
        return {"strings": node.tolist(), "dtype": node.dtype.str}
    if hasattr(node, "detach"):
        name = str(len(arrays))
        arrays[name] = np.asarray(node.detach().cpu().numpy(), order="C")
        return {"tensor": name}
    if isinstance(node, np.ndarray) and node.dtype.kind in "biuf":
        name = str(len(arrays))
        arrays[name] = np.asarray(node, order="C")
        return {"array": name}
    raise ValueError(
        f"{path}: expected dict, list, number, string, None or array, received {type(node).__name__}"
    )


def _unpack(node: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    ((tag, content), *rest) = node.items()
    if tag == "dict":
        return {key: _unpack(value, arrays) for key, value in content.items()}
    if tag == "list":
        return [_unpack(value, arrays) for value in content]
    if tag == "strings":
        return np.array(content, dtype=rest[0][1])
    if tag == "array":
        return arrays[content]
    if tag == "tensor":
        import torch

        return torch.from_numpy(arrays[content].copy())
    return content


def _digest(tree: str, arrays: dict[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256(tree.encode())
    for name in sorted(arrays, key=int):
        digest.update(f"{name}{arrays[name].dtype.str}{arrays[name].shape}".encode())
        digest.update(np.atleast_1d(arrays[name]).view(np.uint8).tobytes())
    return digest.hexdigest()


def dumps(tree: dict[str, Any]) -> bytes:
    """A checkpoint's bytes. ValueError where the tree holds something else than the types above."""
    from safetensors.numpy import save

    arrays: dict[str, NDArray[Any]] = {}
    text = json.dumps(_pack(tree, arrays, "state"))
    header = {"kind": KIND, "version": VERSION, "tree": text, "sha256": _digest(text, arrays)}
    return save(arrays, {_FIELD: json.dumps(header)})


def loads(data: bytes, where: str) -> dict[str, Any]:
    """The tree in `data`. InputError where it is damaged, of another kind or version."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    metadata = _metadata(data, where)
    try:
        arrays = load(data)
        if _digest(metadata["tree"], arrays) != metadata["sha256"]:
            raise InputError(f"{where}: damaged checkpoint: its SHA-256 is not the one it was written with")
        tree = _unpack(json.loads(metadata["tree"]), arrays)
    except (SafetensorError, ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{where}: damaged checkpoint: {error}") from error
    if not isinstance(tree, dict):
        raise InputError(f"{where}: damaged checkpoint: expected a table at the top")
    return tree


def _metadata(data: bytes, where: str) -> dict[str, Any]:
    """The description of the tree in the header. InputError if it is damaged, of another kind or version."""
    try:
        length = int.from_bytes(data[:8], "little")
        metadata: dict[str, Any] = json.loads(json.loads(data[8 : 8 + length])["__metadata__"][_FIELD])
        kind, version = metadata["kind"], metadata["version"]
        if not isinstance(metadata["tree"], str):
            raise ValueError("no tree")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(
            f"{where}: damaged checkpoint: expected a safetensors header, found other bytes"
        ) from error
    if kind == KIND and isinstance(version, int) and version < VERSION:
        raise OutdatedError(
            f"{where}: an earlier version of egrl made this run, and it cannot go on: expected {KIND} version"
            f" {VERSION}, found {version}; `egrl plot` and `egrl evaluate` still read it"
        )
    if kind != KIND or version != VERSION:
        raise InputError(f"{where}: expected {KIND} version {VERSION}, found {kind} version {version}")
    return metadata


def save(folder: Path, generation: int, tree: dict[str, Any]) -> None:
    """Write the checkpoint of a generation and drop all but the last `KEPT`. RunFailure where the disk refuses."""
    atomic.write(folder / f"generation-{generation:08d}.safetensors", dumps(tree))
    for _, old in listing(folder)[:-KEPT]:
        with contextlib.suppress(OSError):
            old.unlink()


def listing(folder: Path) -> list[tuple[int, Path]]:
    """(generation, file) of the complete checkpoints in a folder, oldest first."""
    if not folder.is_dir():
        return []
    found = [(int(match[1]), path) for path in folder.iterdir() if (match := _NAME.fullmatch(path.name))]
    return sorted(found)


def check_version(folder: Path) -> None:
    """InputError where the last checkpoint in a folder was made by a version of egrl whose runs cannot go on here.

    What else may be wrong with it is for `newest` to find.
    """
    for _, path in listing(folder)[-1:]:
        try:
            _metadata(read_bytes(path, "a checkpoint"), str(path))
        except OutdatedError:
            raise
        except InputError:
            continue


def counted(folder: Path) -> dict[str, Any]:
    """`COUNTED` of the last checkpoint, from its header alone; nothing where there is none that can be read."""
    for _, path in listing(folder)[-1:]:
        with contextlib.suppress(InputError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            tree = json.loads(_metadata(read_bytes(path, "a checkpoint"), str(path))["tree"])["dict"]
            return {name: _unpack(tree[name], {}) for name in COUNTED}
    return {}


def newest(folder: Path) -> dict[str, Any] | None:
    """The last checkpoint, or None where there is none.

    Raises:
        InputError: it is damaged; the message names the previous one where that is good. Nothing is deleted.
    """
    files = listing(folder)
    if not files:
        return None
    path = files[-1][1]
    try:
        return loads(read_bytes(path, "a checkpoint"), str(path))
    except InputError as error:
        for _, older in reversed(files[:-1]):
            try:
                loads(read_bytes(older, "a checkpoint"), str(older))
            except InputError:
                continue
            raise InputError(
                f"{error}; the one before is good: delete the damaged file to go on from {older.name}"
            ) from error
        raise
