"""The command line: `egrl …` and `python -m egrl …`."""

from __future__ import annotations

import sys

from egrl.cli import main


def entry() -> None:
    """Console script."""
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    entry()
