"""Names that users hand in: what those of workloads, programs and instances may be, which become part of file names."""

from __future__ import annotations

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
