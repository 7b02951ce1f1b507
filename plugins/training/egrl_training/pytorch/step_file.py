"""A file of Python that says what one training step is: `build()` returns a loss function and its inputs.

def build():
    model = Net()
    return model, (images, labels)      # model(images, labels) is the loss, a scalar

The file is run as `python step.py` would run it, but under the name "__step__": it imports what lies in its folder, a
module `step` among it, and sees no arguments.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from workloads.errors import InputError

NAME = "__step__"
"""What nobody imports: while the file runs, a module of this name is imported."""
_loaded: dict[str, frozenset[str]] = {}
"""The folder of the last step file, where Python looks first, and the modules that were there before."""


def load(file: str) -> tuple[Callable[..., torch.Tensor], Sequence[Any]]:
    """The loss function and its inputs. InputError if the file is no Python, imports what there is not, or defines no
    `build` that returns them.

    The file is run: it is code that the user names. Its folder stays the first where Python looks for modules, since
    functions may import when they run.
    """
    if not Path(file).is_file():
        raise InputError(f"{file}: expected a file of Python with a function build(), found no such file")
    try:
        with _as_a_script(file):
            build = runpy.run_path(file, run_name=NAME).get("build")
            if not callable(build):
                raise InputError(f"{file}: expected a function build(), found none")
            built = build()
    except (ImportError, SyntaxError) as error:
        raise InputError(
            f"{file}: expected Python that can be imported, found {type(error).__name__}: {error}"
        ) from error
    if not (
        isinstance(built, tuple)
        and len(built) == 2
        and callable(built[0])
        and isinstance(built[1], tuple | list)
    ):
        raise InputError(
            f"{file}: expected build() to return a function and its inputs, found {type(built).__name__}"
        )
    return built


@contextlib.contextmanager
def _as_a_script(file: str) -> Iterator[None]:
    """Within it a file sees no arguments, and imports what lies beside it whatever else is called so."""
    folder = str(Path(file).resolve().parent)
    _look_first(folder)
    hidden = _hidden_by(folder)
    argv, sys.argv = sys.argv, [file]
    try:
        yield
    finally:
        sys.argv = argv
        sys.modules.update(hidden)


def _look_first(folder: str) -> None:
    """Let Python look for modules in a folder first, and forget those of other step files that may be called so."""
    if folder in _loaded and folder in sys.path:
        return
    for other, before in _loaded.items():
        with contextlib.suppress(ValueError):
            sys.path.remove(other)
        for name in sys.modules.keys() - before:
            if _is_below(sys.modules[name], other):
                del sys.modules[name]
    _loaded.clear()
    _loaded[folder] = frozenset(sys.modules)
    sys.path.insert(0, folder)


def _hidden_by(folder: str) -> dict[str, ModuleType]:
    """Modules from elsewhere that are called as one in a folder, taken out of those that Python has imported; none of
    Python's own."""
    finder = importlib.machinery.PathFinder
    tops = {name.partition(".")[0] for name in sys.modules} - sys.stdlib_module_names - {"__main__"}
    beside = {name for name in tops if (found := finder.find_spec(name, [folder])) and found.origin}
    return {
        name: sys.modules.pop(name)
        for name in list(sys.modules)
        if name.partition(".")[0] in beside and not _is_below(sys.modules[name], folder)
    }


def _is_below(module: ModuleType, folder: str) -> bool:
    """Whether a module was imported from a folder itself, not from what is installed in one below."""
    file = getattr(module, "__file__", None)
    if not isinstance(file, str):
        return False
    path = Path(file)
    return Path(folder) in path.parents and not {"site-packages", "dist-packages"} & set(path.parts)
