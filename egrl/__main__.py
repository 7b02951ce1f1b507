"""The command line: `egrl …` and `python -m egrl …`."""

from __future__ import annotations

import sys


def entry() -> None:
    """Console script."""
    try:
        from egrl.core.interrupts import end_at_once, take_over

        take_over(end_at_once)
        from egrl.cli.main import main

        code = main(sys.argv[1:])
    except KeyboardInterrupt:
        print("egrl: error: interrupted", file=sys.stderr)
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    entry()
