"""The known names that are most like an unknown one: part of the error line that refuses it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

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


def one_of(given: str, names: Iterable[str], more: str = "") -> str:
    """What is said of a name that is not among `names`, with what else it could be: "expected one of cold, exact or a
    mapping file, found 'cald'; did you mean cold?"."""
    known = list(names)
    return f"expected one of {', '.join(known)}{more}, found {given!r}{hint(given, known)}"
