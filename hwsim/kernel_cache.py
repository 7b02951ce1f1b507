"""Machine code of kernels on disk, in the user's cache folder: `kernels` in `workloads.files.cache_folder`.

Numba's own cache lies beside the source and goes by path: it outlives `pip uninstall`, and a second copy of the same
sources compiles everything again. Here a file is named by the digest of what its code was compiled from, so that equal
sources share it wherever they lie, and other sources never meet it:

- the text of the kernel's file, and of the files of the kernels that it calls;
- what it takes from other files: constants, enumerations, the fields of NamedTuples, defaults, closures;
- the versions of Python, numba, llvmlite and numpy, the processor and its features, and the types of the arguments.

A file is replaced as a whole and begins with the digest of the rest: several processes may write at once, and a damaged
file is compiled anew. What was not used for `KEPT_DAYS` is removed, then the least recently used above `MOST_BYTES`; a
process looks once, when it first keeps something. The folder may be deleted at any time. NUMBA_CACHE_DIR names another
folder. Who can write into it can run code as its user.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import hashlib
import os
import pickle
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core import config
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.serialize import dumps

from workloads.files import cache_folder

KEPT_DAYS = 60
"""How long a file is kept that no process loads."""
MOST_BYTES = 2**30
"""Most bytes that are kept; all kernels of one version take some 50 MB."""
_DAY_S = 86_400.0
_SUFFIX = ".nbc"
_VERSIONS = f"{sys.version_info[:2]} {numba.__version__} {llvmlite.__version__} {np.__version__}"
_DIGESTS: dict[Any, str] = {}
"""Kernel -> digest of what its machine code depends on."""


def folder() -> Path:
    """The folder of machine code. FileNotFoundError if there is no home folder."""
    named: str = config.CACHE_DIR  # type: ignore[attr-defined]
    return Path(named) / "egrl" if named else cache_folder() / "kernels"


def attach(compiled: Any) -> Any:
    """The disk cache of a compiled function; None if it has no source file or the folder cannot be written."""
    source = Path(compiled.py_func.__code__.co_filename)
    try:
        place = folder()
        _ensure_writable(place)
        digest = _digest(compiled.py_func, source)
    except OSError:
        return None
    _DIGESTS[compiled] = digest
    return _Cache(compiled.py_func, place, digest)


@functools.cache
def _ensure_writable(place: Path) -> None:
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    tempfile.TemporaryFile(dir=place).close()


class _Place:
    """The interface by which numba finds the place of a function's machine code."""

    def __init__(self, function: FunctionType, place: Path, digest: str) -> None:
        self._py_file = function.__code__.co_filename
        self._place, self._digest = place, digest

    def get_cache_path(self) -> str:
        return str(self._place)

    def get_source_stamp(self) -> str:
        return self._digest

    def ensure_cache_path(self) -> None:
        self._place.mkdir(mode=0o700, parents=True, exist_ok=True)


class _Impl(CompileResultCacheImpl):
    """Numba's way to make bytes of machine code, without its search for a folder."""

    def __init__(self, function: FunctionType, place: _Place) -> None:
        self._locator: Any = place
        self._lineno = (
            function.__code__.co_firstlineno
        )  # for numba's warning about a function that cannot be kept


class _Cache(FunctionCache):
    """Numba's cache of one function, with files of ours below it."""

    def __init__(self, function: FunctionType, place: Path, digest: str) -> None:
        self._name, self._py_func = repr(function), function
        self._impl = _Impl(function, _Place(function, place, digest))
        self._cache_path = str(place)
        self._cache_file: Any = _Files(place, f"{function.__module__}.{function.__qualname__}", digest)
        self._enabled = True
        self._turns: list[Path] = []
        """Files that this process is about to write, the innermost last."""

    def take_turn(self, types: Any, target: Any) -> None:
        """Wait until no other process compiles this function for these types. OSError if it cannot be known."""
        from hwsim import kernel_turns  # only where something is compiled

        key: Any = self._index_key(types, target.codegen())  # type: ignore[no-untyped-call]
        path = self._cache_file.path(key)
        self._turns.append(path)
        kernel_turns.take(path.parent, path.name)

    def end_turn(self) -> None:
        """What this process compiled last is on disk, or was not to be had. OSError as `take_turn`."""
        if self._turns:
            from hwsim import kernel_turns

            path = self._turns.pop()
            kernel_turns.give_back(path.parent, path.name)


class _Files:
    """The machine code of one function: a file per key, which is the types of the arguments and the processor.

    A file: SHA-256 of the rest, 32 bytes; then the pickled key and the pickled machine code.
    """

    def __init__(self, place: Path, name: str, digest: str) -> None:
        self._place, self._digest = place, digest
        self._name = re.sub(r"[^\w.]", "", name)[-80:]

    def load(self, key: Any) -> Any:
        """What `save` kept under an equal key; None if there is none. OSError if it cannot be read."""
        path = self.path(key)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        if hashlib.sha256(data[32:]).digest() != data[:32]:
            return None
        try:
            kept, code = pickle.loads(data[32:])
        except (ImportError, AttributeError):  # a type of the arguments has moved to another file since
            return None
        if kept != key:
            return None
        with contextlib.suppress(OSError):  # another user's, or just removed
            if time.time() - path.stat().st_mtime > _DAY_S:
                os.utime(path)
        return code

    def save(self, key: Any, code: Any) -> None:
        """Keep machine code under a key. OSError if the disk refuses."""
        _tidy(self._place)
        body: bytes = dumps((key, code))  # type: ignore[no-untyped-call]
        handle, temporary = tempfile.mkstemp(dir=self._place, suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(hashlib.sha256(body).digest() + body)
            os.replace(temporary, self.path(key))
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise

    def flush(self) -> None:
        """Forget all machine code of this function."""
        for path in self._place.glob(f"{self._name}-{self._digest[:16]}-*"):
            path.unlink(missing_ok=True)

    def path(self, key: Any) -> Path:
        """Where machine code is kept under a key."""
        text = hashlib.sha256(f"{key!r} {self._digest}".encode()).hexdigest()
        return self._place / f"{self._name}-{self._digest[:16]}-{text[:16]}{_SUFFIX}"


@functools.cache  # once per process
def _tidy(place: Path) -> None:
    """Remove what was not used for long, then the least recently used of what is too much."""
    entries = []
    for path in place.iterdir():
        with contextlib.suppress(OSError):  # another process removes files, too
            if path.suffix in (_SUFFIX, ".tmp"):
                status = path.stat()
                entries.append((status.st_mtime, status.st_size, path))
    total, now = sum(size for _, size, _ in entries), time.time()
    for used, size, path in sorted(entries):
        old = now - used > (_DAY_S if path.suffix == ".tmp" else KEPT_DAYS * _DAY_S)
        if old or total > MOST_BYTES:
            with contextlib.suppress(OSError):
                path.unlink()
            total -= size


def _digest(function: Any, source: Path) -> str:
    """A digest of a function's file and of all that its code names, as far as machine code depends on it."""
    digest = hashlib.sha256(f"{_VERSIONS} {_file_digest(source)} {function.__qualname__}".encode())
    for part in _parts(function):
        digest.update(part.encode())
        digest.update(b"\0")
    return digest.hexdigest()


@functools.cache
def _file_digest(source: Path) -> str:
    return hashlib.sha256(source.read_bytes()).hexdigest()


def _parts(function: FunctionType) -> Iterator[str]:
    names = list(_code_parts(function.__code__))
    yield from names
    for default in (*(function.__defaults__ or ()), *sorted((function.__kwdefaults__ or {}).items())):
        yield from _value_parts("default", default)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield from _value_parts(name, cell.cell_contents)
    scope = function.__globals__
    # Annotations are text: the types of arguments are among the names in them.
    words = re.findall(r"\w+", " ".join(str(part) for part in function.__annotations__.values()))
    for name in sorted({*names, *words}):
        value = scope.get(name)
        if isinstance(value, ModuleType):  # what the code takes of it is among its names, too
            for member in sorted(set(names)):
                yield from _value_parts(f"{name}.{member}", vars(value).get(member))
        else:
            yield from _value_parts(name, value)


def _code_parts(code: CodeType) -> Iterator[str]:
    """Byte code, names and constants, of inner functions, too."""
    yield code.co_code.hex()
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code_parts(constant)
        elif isinstance(constant, frozenset):  # whose order differs between processes
            yield repr(sorted(map(repr, constant)))
        else:
            yield repr(constant)


def _value_parts(name: str, value: Any) -> Iterator[str]:
    """What machine code depends on of a value with this name; nothing if it is of no kind that kernels use."""
    if isinstance(value, bool | int | float | str | tuple | np.generic):
        yield f"{name} = {value!r}"
    elif isinstance(value, np.ndarray):
        yield f"{name} = {value.dtype} {value.shape} {value.tobytes().hex()}"
    elif isinstance(value, enum.EnumMeta):
        yield f"{name}: {list(value.__members__.items())!r}"
    elif isinstance(value, type) and hasattr(value, "_fields"):
        yield f"{name}: {', '.join(value._fields)}"
        yield from (str(kind) for kind in value.__annotations__.values())
    elif (digest := _known(value)) is not None:
        yield f"{name}: {digest}"


def _known(value: Any) -> str | None:
    """The digest of a kernel; None of anything else."""
    try:
        return _DIGESTS.get(value)
    except TypeError:  # not hashable
        return None


@functools.cache
def lanes() -> int:
    """Numbers of float64 in a SIMD register of this machine: 8, 4 or 2."""
    import llvmlite.binding as llvm

    features = dict(llvm.get_host_cpu_features())
    return 8 if features.get("avx512f") else 4 if features.get("avx") else 2


@functools.cache
def machine_name() -> str:
    """Processor, lanes and a digest of its features: "znver5, 8 lanes, 1a2b3c4d"."""
    import llvmlite.binding as llvm

    features = hashlib.sha256(str(llvm.get_host_cpu_features().flatten()).encode()).hexdigest()[:8]
    return f"{llvm.get_host_cpu_name()}, {lanes()} lanes, {features}"
