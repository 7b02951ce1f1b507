"""Numbers and tables as people read them: units, numbers that may be unknown, Markdown."""

from __future__ import annotations

import csv
import difflib
import io
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

UNKNOWN = "-"
"""What stands for a number that is not known."""
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")
"""How text begins that spreadsheets take as a formula, or that hides one."""
UNITS = {
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")),
    "B": ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B")),
}
"""Sizes and names of the units of seconds and bytes, the largest first."""

_QUANTITY = re.compile(
    r"\s*([0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?)\s*(?:([KMGT]?)(i?)B(?:/s)?)?\s*", re.IGNORECASE
)


def read_quantity(text: str) -> float | None:
    """The number in "67.2e9", or the bytes (per second) in "8 MiB", "512MB" or "60 GB/s"; None if it is none."""
    match = _QUANTITY.fullmatch(text)
    if match is None or (match[3] and not match[2]):
        return None
    power = "_KMGT".index(match[2].upper()) if match[2] else 0
    return float(match[1]) * float(1024 if match[3] else 1000) ** power


def csv_cell(value: object) -> object:
    """A value for a CSV file: text that a spreadsheet would run as a formula begins with an apostrophe."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULAS) else value


def csv_table(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """Rows as CSV with a header; no cell is a formula for a spreadsheet."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: csv_cell(value) for key, value in row.items()} for row in rows)
    return stream.getvalue()


def plain_cell(text: str) -> str:
    """The text that `csv_cell` made this of."""
    return text[1:] if text.startswith(tuple(f"'{sign}" for sign in _FORMULAS)) else text


def unit_for(most: float, unit: str) -> tuple[float, str]:
    """The size and the name of the unit in which numbers up to `most`, in `unit`, read best."""
    table = UNITS.get(unit)
    if table is None or most == 0:
        return 1.0, unit
    return next(((size, name) for size, name in table if abs(most) >= size), table[-1])


def number_text(value: float) -> str:
    """Four digits that count, thousands apart; whole numbers as they are."""
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2 if abs(value) >= 10 else 4
    return f"{value:,.{digits}f}"


def with_unit(value: float, unit: str = "") -> str:
    """A number in the unit that reads best for it, with that unit."""
    size, name = unit_for(value, unit)
    return f"{number_text(value / size)} {name}".rstrip()


def size_text(size_bytes: int) -> str:
    """A size in bytes with at most four digits: 1.5 MiB."""
    size, name = unit_for(size_bytes, "B")
    return f"{size_bytes / size:.4g} {name}"


def exact_size(size_bytes: int) -> str:
    """A size that is to be typed again, to the byte, and readable: 1572864 bytes (1.5 MiB)."""
    return f"{size_bytes} bytes" if size_bytes < 1024 else f"{size_bytes} bytes ({size_text(size_bytes)})"


def optional(value: float | None, form: str = "") -> str:
    """The value in a format of Python (".4f"); `UNKNOWN` where it is None."""
    return UNKNOWN if value is None else format(value, form)


_MARKUP = re.compile(r"[\\`*<>|\[\]&~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")


def markdown_text(text: str) -> str:
    """The text, such as a name of a user's, for Markdown and its tables: nothing in it is markup."""
    return _MARKUP.sub(r"\\\g<0>", text)


def table_row(cells: Iterable[object]) -> str:
    """One line of a Markdown table."""
    return f"| {' | '.join(map(str, cells))} |"


def table_rule(left: int, right: int = 0) -> str:
    """The line below the head of a Markdown table: columns aligned to the left, then columns aligned to the right."""
    return "|---" * left + "|---:" * right + "|"


def table(
    head: Sequence[str], rows: Iterable[Sequence[object]], left: int = 1, last_left: bool = False
) -> list[str]:
    """The lines of a Markdown table, its cells padded to equal width.

    Args:
        head: names of the columns.
        rows: cells of each row, as many as columns.
        left: how many of the first columns are aligned to the left; the others are numbers, to the right.
        last_left: True if the last column is aligned to the left as well.
    """
    lines = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(3, *(len(line[k]) for line in lines)) for k in range(len(head))]
    is_left = [k < left or (last_left and k == len(head) - 1) for k in range(len(head))]
    rule = ["-" * (width - 1) + ("-" if own else ":") for width, own in zip(widths, is_left, strict=True)]
    return [
        table_row(
            cell.ljust(width) if own else cell.rjust(width)
            for cell, width, own in zip(line, widths, is_left, strict=True)
        )
        for line in (lines[0], rule, *lines[1:])
    ]


def aligned(rows: Sequence[Sequence[str]], left: Container[int]) -> list[str]:
    """Lines for a terminal, cells padded to equal width; columns that are not in `left` are aligned to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


MAX_NAME = 200
"""Characters in the name of a workload, program or instance."""
FILE_NAME = f"a printable name of at most {MAX_NAME} characters without path separators"
"""What `is_file_name` expects, for a message."""


def is_name(value: object) -> bool:
    """Whether a value is text that is not empty and can be printed."""
    return type(value) is str and bool(value) and value.isprintable()


def is_file_name(value: object) -> bool:
    """Whether a value is a name that may become part of a file's or a folder's."""
    return (
        type(value) is str
        and is_name(value)
        and len(value) <= MAX_NAME
        and "/" not in value
        and "\\" not in value
        and value not in (".", "..")
    )


def as_file_name(text: str, otherwise: str) -> str:
    """The text as such a name, what it may not hold replaced by -; `otherwise` where nothing is left."""
    found = "".join(c if c.isprintable() and c not in "/\\" else "-" for c in text)[:MAX_NAME]
    return found if is_file_name(found) else otherwise


def encodes(value: object) -> bool:
    """Whether a value is text that can be written to a file (it holds no lone surrogate)."""
    if type(value) is not str:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def visible(text: str) -> str:
    """The text with every character that cannot be printed as an escape such as `\\x1b`, lone surrogates among them."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


MOST_REMARKS = 50
"""Remarks that a workload or a program keeps."""


def few(remarks: Sequence[str]) -> tuple[str, ...]:
    """The first `MOST_REMARKS`, and where there are more, a line that counts them."""
    if len(remarks) <= MOST_REMARKS + 1:
        return tuple(remarks)
    return *remarks[:MOST_REMARKS], f"and {len(remarks) - MOST_REMARKS:,} more remarks"


ALIKE = 0.6
"""How much names are alike, from 0 to 1, that are taken for one another (`difflib.get_close_matches`); assumption."""
CLOSE = 0.08
"""A line proposes a further name only if its likeness is at most this much below that of the first; assumption."""
MOST = 3
"""Names that a line proposes."""


def nearest(given: str, names: Iterable[str], most: int = MOST, alike: float = ALIKE) -> list[str]:
    """The `names` most like `given`, best first, at most so many; upper and lower case are one."""
    folded = {name.lower(): name for name in names}
    return [folded[name] for name in difflib.get_close_matches(given.lower(), list(folded), most, alike)]


def hint(given: str, names: Iterable[str]) -> str:
    """The end of a sentence, "; did you mean bert or beit?"; "" where no name is like `given`."""
    found = nearest(given, names)
    shares = [difflib.SequenceMatcher(None, name.lower(), given.lower()).ratio() for name in found]
    found = [name for name, share in zip(found, shares, strict=True) if share > shares[0] - CLOSE]
    return f"; did you mean {' or '.join(found)}?" if found else ""


def repeated(names: Sequence[Any]) -> Any:
    """The first of the names that is there twice; None where all differ."""
    return next((name for name in names if names.count(name) > 1), None)


def one_of(given: str, names: Iterable[str], more: str = "") -> str:
    """What is said of a name that is not among `names`, with what else it could be: "expected one of cold, exact or a
    mapping file, found 'cald'; did you mean cold?"."""
    known = list(names)
    return f"expected one of {', '.join(known)}{more}, found {given!r}{hint(given, known)}"
