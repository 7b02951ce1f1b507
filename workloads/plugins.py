"""Code from outside the package: what installed distributions offer by entry points, and MODULE:NAME.

An entry point is imported when its name is used or listed. MODULE:NAME is imported where the user gives it, and never
because a file names it (`check_given`): a run folder may come from a stranger.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import inspect
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workloads.errors import InputError, Notice
from workloads.references import imported, is_reference, look_here
from workloads.text import one_of

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


@dataclass(frozen=True)
class Kind:
    """What a registry is of.

    Attributes:
        word: "method"; the group of its entry points is then `egrl.methods`.
        flag: what its names are given to, for messages.
        own: the package's own names, which nobody else can take.
        expected: what an entry point, or MODULE:NAME, has to name.
    """

    word: str
    flag: str
    own: tuple[str, ...]
    expected: str

    def refers(self, name: str) -> bool:
        """Whether a name is MODULE:NAME."""
        return is_reference(name)


@dataclass(frozen=True)
class Outside:
    """Something that code outside the package defines.

    Attributes:
        name: by which it was asked for.
        thing: what it is.
        where: flag, name and distribution, for messages.
        expected: what it has to be.
    """

    name: str
    thing: Any
    where: str
    expected: str

    def refuse(self, found: str) -> InputError:
        """The error that says what was expected and what was found."""
        return InputError(f"{self.where}: expected {self.expected}, found {found}")


def described(found: Outside) -> str:
    """What something is, for messages: "class climb:HillClimber", "int climb:number"."""
    return f"{'class' if isinstance(found.thing, type) else type(found.thing).__name__} {found.name}"


def summary_of(thing: Any) -> str:
    """The first line of a docstring; "" where there is none."""
    lines = inspect.cleandoc(getattr(thing, "__doc__", None) or "").splitlines()
    return lines[0].rstrip(".") if lines else ""


def find(kind: Kind, name: str) -> Outside:
    """What a plug-in, or MODULE:NAME, gives for a name that is not the package's own.

    InputError, one line, where there is none or it cannot be imported; it lists the names that there are, or says which
    plug-in to install.
    """
    offered = installed(kind)
    if name in offered:
        return _load(kind, offered[name])
    if kind.refers(name):
        look_here()
        where = f"{kind.flag} {name}"
        return Outside(name, imported(name, where), where, kind.expected)
    check_installed(kind.word, name, kind.flag)
    known = [*kind.own, *offered]
    expected = one_of(name, known, " or MODULE:NAME") if known else f"expected MODULE:NAME, found {name!r}"
    raise InputError(f"{kind.flag}: {expected}")


def listing(kind: Kind, own: Mapping[str, str], summary: Callable[[Outside], str]) -> list[dict[str, object]]:
    """Name and one line of each entry, the plug-ins after the package's own; of a broken one what is wrong."""
    found: list[dict[str, object]] = [{"name": name, "summary": line} for name, line in own.items()]
    for name, entry in installed(kind).items():
        try:
            line = f"{summary(_load(kind, entry))} ({_distribution(entry)})".lstrip()
        except InputError as error:
            line = f"cannot be used: {error}"
        found.append({"name": name, "summary": line})
    return found


def check_given(where: str, *named: tuple[Kind, str, str]) -> None:
    """InputError where a file names MODULE:NAME and the user does not: no folder makes code run.

    `where` is the file; `named` are kinds, the names in the file, and those that the user gave ("": none).
    """
    missing = [(kind, name) for kind, name, given in named if kind.refers(name) and name != given]
    if missing:
        flags = " ".join(f"--{kind.word} {name}" for kind, name in missing)
        raise InputError(
            f"{where}: expected {flags}, which was not given: code in a file is imported only if you name it"
        )


# ---- entry points


def installed(kind: Kind) -> dict[str, EntryPoint]:
    """The plug-ins of installed distributions by name. A `Notice` about each that cannot have its name."""
    found: dict[str, EntryPoint] = {}
    for name, entries in _entry_points(f"egrl.{kind.word}s", tuple(sys.path)).items():
        if why := _ignored(kind, name, entries):
            warnings.warn(Notice(f"{kind.word} {why}"), stacklevel=2)
        else:
            found[name] = entries[0]
    return found


def _ignored(kind: Kind, name: str, entries: tuple[EntryPoint, ...]) -> str | None:
    """Why plug-ins cannot have their name, if so; only then metadata are read, which takes milliseconds each time."""

    def by() -> str:
        return " and ".join(map(_distribution, entries))

    if name in kind.own:
        return f"{name} of {by()} is ignored: the name is the package's own"
    if len(entries) > 1:
        return f"{name} is ignored: several offer it, {by()}; uninstall one"
    if not name.isprintable() or not name or ":" in name or "," in name:
        return f"{name!r} of {by()} is ignored: a name has no colon and no comma"
    return None


@cache
def _entry_points(group: str, path: tuple[str, ...]) -> dict[str, tuple[EntryPoint, ...]]:
    """Name -> the entry points of a group on `path`, which is `sys.path`, in the order of the names."""
    from importlib.metadata import entry_points  # 40 ms, which `egrl --help` does not need

    found: dict[str, tuple[EntryPoint, ...]] = {}
    for entry in sorted(entry_points(group=group), key=lambda entry: entry.name):
        found[entry.name] = (*found.get(entry.name, ()), entry)
    return found


def origins(kind: Kind) -> dict[str, str]:
    """The plug-ins by name, and what they say of themselves, or their distributions; nothing of them is imported."""
    return {name: _about(entry) for name, entry in installed(kind).items()}


def _short_help(entry: EntryPoint) -> str:
    """What the source of a command says of it in `short_help="..."`; "" where that is not found."""
    top, _, rest = entry.module.partition(".")
    with contextlib.suppress(ImportError, ValueError, OSError, SyntaxError):
        spec = find_spec(top)
        if spec is None or spec.origin is None:
            return ""
        file = Path(spec.origin).parent.joinpath(*rest.split(".")).with_suffix(".py") if rest else spec.origin
        for node in ast.walk(ast.parse(Path(file).read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name == entry.attr:
                words = [keyword for each in node.decorator_list for keyword in _keywords(each)]
                return next((text for name, text in words if name == "short_help"), "")
    return ""


def _keywords(node: ast.expr) -> list[tuple[str, str]]:
    """The keywords of a call that are texts."""
    given = node.keywords if isinstance(node, ast.Call) else []
    texts = [(each.arg, each.value.value) for each in given if isinstance(each.value, ast.Constant)]
    return [(name, text) for name, text in texts if name is not None and isinstance(text, str)]


def _about(entry: EntryPoint) -> str:
    if says := _short_help(entry):
        return f"{says} ({_distribution(entry)})"
    said = entry.dist is not None and "Summary" in entry.dist.metadata
    return (
        f"{entry.dist.metadata['Summary'] if entry.dist and said else 'a plug-in'} ({_distribution(entry)})"
    )


def _distribution(entry: EntryPoint) -> str:
    return "an unknown distribution" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"


def _load(kind: Kind, entry: EntryPoint) -> Outside:
    where = f"{kind.flag} {entry.name} (of {_distribution(entry)})"
    if not is_reference(entry.value):
        raise InputError(f"{where}: expected an entry point MODULE:NAME, found {entry.value!r}")
    return Outside(entry.name, imported(entry.value, where), where, kind.expected)


# ---- settings


@dataclass(frozen=True)
class NoSettings:
    """There is nothing to set."""


def settings_of(outside: Outside, call: Callable[..., Any], given: Sequence[str]) -> type:
    """The settings of a class or function: the dataclass with which its parameter after those `given` is annotated.

    `NoSettings` where it takes no more than is given. InputError where it takes anything else.
    """
    try:
        signature = inspect.signature(call)
        after = [
            p for p in signature.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        hint = after[len(given)].annotation if len(after) > len(given) else None
        if isinstance(hint, str):
            hint = getattr(sys.modules.get(call.__module__), hint, hint)
        wanted = (*given, "config") if dataclasses.is_dataclass(hint) else given
        signature.bind(*wanted)
    except (TypeError, ValueError) as error:
        taken = f"({', '.join(given)}) or ({', '.join(given)}, config: a dataclass)"
        raise outside.refuse(f"{outside.name} that cannot be called with {taken}: {error}") from error
    return (
        check_settings(outside, hint) if isinstance(hint, type) and len(wanted) > len(given) else NoSettings
    )


def check_settings(outside: Outside, config: Any) -> type:
    """The settings, if they are a dataclass whose fields all have defaults. InputError where they are not."""
    if not isinstance(config, type) or not dataclasses.is_dataclass(config):
        raise outside.refuse(f"settings that are no dataclass: {config!r}")
    for entry in dataclasses.fields(config):
        if entry.default is dataclasses.MISSING and entry.default_factory is dataclasses.MISSING:
            raise outside.refuse(f"settings with a field that has no default: {config.__name__}.{entry.name}")
    return config


FILE = Path(__file__).with_name("known_plugins.toml")


@cache
def known() -> dict[str, dict[str, Any]]:
    """Distribution -> its `folder` in a clone, and the names of each group of its entry points."""
    import tomllib

    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def offered(kind: str) -> dict[str, str]:
    """The names of a kind that plug-ins of a clone offer -> what to install for each."""
    return {
        name: f"{distribution}: pip install ./{offers['folder']}"
        for distribution, offers in known().items()
        for name in offers.get(f"{kind}s", ())
    }


def check_installed(kind: str, name: str, flag: str) -> None:
    """InputError that says what to install if `name` is of a plug-in that comes with egrl; call it if it is not there.

    `kind` is the word of a `plugins.Kind`: "problem".
    """
    if name in (there := offered(kind)):
        distribution, _, command = there[name].partition(": ")
        raise InputError(
            f"{flag} {name}: expected the plug-in {distribution} to be installed, found it missing; in a clone of"
            f" egrl: {command}"
        )
