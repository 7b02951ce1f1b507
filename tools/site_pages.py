"""Hooks of `mkdocs build`: pages made from code, README.md, CHANGELOG.md and plug-ins' guides and documents, and
links to files beside the site.

A file in the docs/ of a plug-in has the address that it would have in the project's own docs/.

Pages are read on the disk, too, where a link to a file of the code works. On the site it becomes the file's path.
Where a link to a CSV file stands alone in a paragraph, the site has its rows as a table above the link. In place of one
to code it has the program (of examples/), what `FROM_CODE` makes of the file, or else its docstring from the second
paragraph on.
"""

from __future__ import annotations

import ast
import csv
import inspect
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import egrl
from egrl.cli.listing import entries
from egrl.cli.main import COMMANDS, cli
from egrl.figures import FIGURES, find_figure
from egrl.methods import METHODS
from egrl.problems import PROBLEMS
from hwsim import capabilities as offered
from hwsim import family, sections, stepwise
from workloads.text import table_row
from workloads.workload import Op

ROOT = Path(__file__).resolve().parents[1]
DOCS, EXAMPLES = ROOT / "docs", ROOT / "examples"
FROM_FILES = {
    "index.md": ROOT / "README.md",
    "changelog.md": ROOT / "CHANGELOG.md",
    **{
        f"guides/{page.parent.name}{'' if page.stem == 'README' else f'-{page.stem}'}.md": page
        for page in sorted(ROOT.glob("plugins/*/*.md"))
    },
    **{
        file.relative_to(folder).as_posix(): file
        for folder in sorted(ROOT.glob("plugins/*/docs"))
        for file in sorted(folder.rglob("*.*"))
    },
}
MODULES = (offered, family, sections, stepwise)
"""Where capabilities are defined."""
USERS = ("egrl/**/*.py", "population/*.py", "hwsim/mappings.py", "plugins/*/egrl_*/**/*.py")
"""Where they are asked for."""
TABLE = re.compile(r"^\[[^\]]*\]\(([^)\s]+\.csv)\)$", flags=re.MULTILINE)
CODE = re.compile(r"(?<=\n\n)\[[^\]]*\]\(([^)\s]+\.(?:py|sh))\)$", flags=re.MULTILINE)
FENCE_OR_LINK = re.compile(r"^```.*?^```$|\[([^\]]*)\]\(([^)\s]+)\)", flags=re.DOTALL | re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that the folder does not have."""
    for name, path in FROM_FILES.items():
        files.append(File.generated(config, name, abs_src_path=str(path)))
    for name, make in MADE.items():
        files.append(File.generated(config, name, content="\n".join(make())))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Links as the site has them.

    Raises:
        PluginError: one leads to a file that is not there.
    """
    at = DOCS / page.file.src_uri
    beside = FROM_FILES.get(page.file.src_uri, at).parent

    def linked(match: re.Match[str]) -> str:
        text, target = match.groups()
        if text is None or re.match(r"[a-z]+:|#", target):
            return match[0]
        name, hash_, anchor = target.partition("#")
        path = (beside / name).resolve()
        if not path.exists():
            raise PluginError(f"{page.file.src_uri}: expected a file at {target}, found none")
        for made, source in FROM_FILES.items():
            path = DOCS / made if path == source else path
        if path.is_relative_to(DOCS):
            return f"[{text}]({os.path.relpath(path, at.parent)}{hash_}{anchor})"
        words = "log" in path.parts or "/" in text or " " in text
        return text if words else f"`{path.relative_to(ROOT)}`"

    shown = TABLE.sub(lambda match: f"{_table(beside / match[1])}\n\n{match[0]}", markdown)
    shown = CODE.sub(lambda match: from_code((beside / match[1]).resolve()), shown)
    return FENCE_OR_LINK.sub(linked, shown)


def _table(path: Path) -> str:
    """A CSV file as a table; columns of numbers to the right."""
    head, *rows = csv.reader(path.read_text(encoding="utf-8").splitlines())
    numbers = [all(re.fullmatch(r"[\d.,%]*", row[i]) for row in rows) for i in range(len(head))]
    rule = ["---:" if right else "---" for right in numbers]
    return "\n".join(map(table_row, (head, rule, *rows)))


def from_code(path: Path) -> str:
    """An example, or what another Python file says of itself. PluginError where it says nothing, or is not there."""
    if path.is_relative_to(EXAMPLES) and path.exists():
        return _program(path)
    made = FROM_CODE.get(str(path.relative_to(ROOT)))
    if made is not None:
        return "\n".join(made())
    said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) if path.exists() else None
    _, _, rest = (said or "").partition("\n\n")
    if not rest:
        raise PluginError(f"{path.relative_to(ROOT)}: expected a docstring of two paragraphs, found none")
    return re.sub(r"(?m)^((?!- |  ).+)\n(?=- )", r"\1\n\n", rest)


def _methods() -> Iterator[str]:
    yield "| method | what it is |\n|---|---|"
    for name, entry in METHODS.items():
        yield f"| `{name}` | {entry.summary} |"


def _problems() -> Iterator[str]:
    yield "| problem | what is decided | `--chip` | method by default |\n|---|---|---|---|"
    for name, entry in PROBLEMS.items():
        chips = ", ".join(f"`{chip}`" for chip in entry.load().chips())
        yield f"| `{name}` | {entry.summary} | {chips} | `{entry.method}` |"


def capabilities() -> dict[str, type]:
    """Name -> protocol of what a problem may offer, in the order of the code."""
    return {
        name: kind
        for module in MODULES
        for name, kind in vars(module).items()
        if getattr(kind, "_is_runtime_protocol", False) and kind.__module__ == module.__name__
    }


def _capabilities() -> Iterator[str]:
    yield "| capability | what the problem has | used by |\n|---|---|---|"
    for name, kind in capabilities().items():
        says = (inspect.getdoc(kind) or "").splitlines()[0]
        offers = "<br>".join(f"`{member}`" for member in _members(kind))
        cells = (f"`{name}`", f"{says}<br>{offers}", ", ".join(f"`{file}`" for file in users_of(name)))
        yield table_row(cell.replace("|", r"\|") for cell in cells)


def _members(kind: type) -> Iterator[str]:
    """Attributes and methods of a protocol, as they are written."""
    for name, hint in vars(kind).get("__annotations__", {}).items():
        yield f"{name}: {hint}"
    for name, member in vars(kind).items():
        if name.startswith("_"):
            continue
        if isinstance(member, property) and member.fget is not None:
            yield f"{name}: {inspect.signature(member.fget).return_annotation}"
        elif inspect.isfunction(member):
            written = f"{name}{inspect.signature(member)}".replace("'", "")
            yield written.replace("(self, ", "(").replace("(self)", "()")


def users_of(capability: str) -> list[str]:
    """The files that ask for a capability, without those of problems."""
    asked = "explainer" if capability == "HasExplanation" else capability
    word = re.compile(rf"\b{asked}\b")
    files = [path for pattern in USERS for path in sorted(ROOT.glob(pattern)) if path.stem != "problem"]
    asking = (path for path in files if word.search(_without_imports(path)))
    return [path.relative_to(ROOT).as_posix() for path in asking]


def _without_imports(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    return re.sub(r"(?m)^\s*from \S+ import (\([^)]*\)|.*)$", "", text)


def _op() -> Iterator[str]:
    """The fields of an op, as its docstring has them."""
    meanings: dict[str, str] = {}
    for line in inspect.cleandoc(Op.__doc__ or "").partition("Attributes:\n")[2].splitlines():
        names, _, meaning = line.strip().partition(": ")
        meanings |= dict.fromkeys(names.split(", "), meaning.rstrip(".").replace("None", "null"))
    yield "| field | meaning | default |\n|---|---|---|"
    for field in fields(Op):
        default = "required" if field.default is MISSING else json.dumps(field.default)
        yield f"| `{field.name}` | {meanings[field.name]} | {default} |"


def _program(path: Path) -> str:
    """A program under its name."""
    language = {".py": "python", ".sh": "sh"}[path.suffix]
    return f"`{path.relative_to(ROOT)}`:\n\n```{language}\n{path.read_text(encoding='utf-8')}```"


def _commands() -> Iterator[str]:
    yield "# Commands\n"
    yield "What `egrl COMMAND --help` says.\n"
    with click.Context(cli, info_name="egrl") as outer:
        for name in COMMANDS:
            command = cli.get_command(outer, name)
            assert command is not None
            with click.Context(command, info_name=f"egrl {name}", max_content_width=100) as context:
                yield f"## egrl {name}\n\n```text\n{command.get_help(context)}\n```\n"


def _settings() -> Iterator[str]:
    yield "# Settings\n"
    yield "What `--set` can change, as `egrl list settings NAME` says."
    yield "The last part of a key is enough where it is unique.\n"
    for kind in ("problems", "methods"):
        for entry in entries(kind):
            yield from _settings_of(str(entry["name"]))
    yield from _settings_of("evaluator")


def _settings_of(name: str) -> Iterator[str]:
    found = entries("settings", name)
    if not found:
        return
    yield f"## {name}\n"
    yield "| setting | default | may be | meaning |\n|---|---|---|---|"
    for each in found:
        cells = (f"`{each['name']}`", f"`{json.dumps(each['default'])}`", each["allowed"], each["meaning"])
        yield table_row(str(cell).replace("|", r"\|") for cell in cells)
    yield ""


def _figures() -> Iterator[str]:
    yield "# How to read each figure\n"
    yield "Which figure to draw, and of what: [figures](../guides/figures.md).\n"
    for name in FIGURES:
        yield f"## {name}\n\n{inspect.getdoc(find_figure(name).draw)}\n"
        if name == "umap":
            yield "[What the groups and the numbers say](../guides/figures.md#umap).\n"


def _python() -> Iterator[str]:
    yield "# Python\n"
    for name in egrl.__all__:
        if not name.startswith("_"):
            yield f"::: egrl.{name}\n"


MADE: dict[str, Callable[[], Iterator[str]]] = {
    "reference/commands.md": _commands,
    "reference/settings.md": _settings,
    "reference/figures.md": _figures,
    "reference/api.md": _python,
}
FROM_CODE: dict[str, Callable[[], Iterator[str]]] = {
    "egrl/methods/__init__.py": _methods,
    "egrl/problems.py": _problems,
    "workloads/workload.py": _op,
    "hwsim/capabilities.py": _capabilities,
}
"""What pages show of a Python file instead of its docstring."""
