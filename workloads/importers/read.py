"""Model files as workloads, by how their names end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

from workloads.files import MAX_BYTES, read_bytes
from workloads.importers.convert import Imported, convert
from workloads.importers.dimensions import Dimensions
from workloads.packed import unpack

SUFFIXES = (".onnx", ".onnx.gz", ".pt2")


def is_model(file: str) -> bool:
    """Whether a file's name ends like a model's."""
    return file.lower().endswith(SUFFIXES)


def read(
    file: str,
    dimensions: Mapping[str, int] | None = None,
    element_bytes: float | None = None,
    fuse: bool = True,
) -> Imported:
    """The model in a .onnx, .onnx.gz or .pt2 file.

    `dimensions` gives the sizes of those that the model leaves open, `element_bytes` replaces the widths in the file of
    all but ids, masks and shapes, and `fuse` runs element-wise tails in the ops before them.

    Raises:
        InputError: not such a file, damaged, a dimension left open, or sizes out of range; one line.
    """
    data = read_bytes(file, "a model (.onnx, .onnx.gz or .pt2)")
    wanted = Dimensions(dimensions or {})
    if file.lower().endswith(".pt2"):
        from workloads.importers import pt2_file

        graph = pt2_file.read(data, file, wanted)
    else:
        from workloads.importers import onnx_file

        graph = onnx_file.read(unpack(data, file, MAX_BYTES), file, wanted)
    return convert(graph, stem(file), PurePath(file).name, element_bytes, fuse)


def stem(file: str) -> str:
    """The name of a model: its file's, without the ending."""
    name = PurePath(file).name
    ending = max((s for s in SUFFIXES if name.lower().endswith(s)), key=len, default="")
    return name[: len(name) - len(ending)]
