"""What stands on pages: blocks, tables, commands, and words apart from numbers."""

from __future__ import annotations

import re
import shlex


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)


def spans(text: str) -> list[str]:
    """What stands in backticks outside fenced blocks."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE))


def table(text: str, heading: str) -> list[list[str]]:
    """Cells of the first table whose first heading is `heading`."""
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith(f"| {heading} |"))
    rows = []
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return rows


def commands(text: str) -> list[list[str]]:
    """Arguments of every `egrl …` line in shell blocks; a line that ends in a backslash goes on."""
    lines = [line for block in blocks(text, "sh") for line in block.replace("\\\n", " ").splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("egrl ")]


def block(text: str, language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    return found


def words(text: str) -> list[str]:
    """Lines without numbers (… is one), without how wide columns are, and without who found what."""
    lines = [re.sub(r"\bby \w+$", "", line) for line in text.strip().splitlines()]
    return [" ".join(re.sub(r"[\d,.…]+", "#", line).split()) for line in lines]
