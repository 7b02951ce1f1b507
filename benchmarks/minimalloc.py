"""How many of a folder's allocation instances pack: CSV files with columns id, lower, upper, size (or start, end).

    python benchmarks/minimalloc.py FOLDER [--seconds 10] [--seed 0] [--capacity BYTES]

The format and the eleven instances that it was made for are MiniMalloc's (https://github.com/google/minimalloc,
benchmarks/challenging). A file NAME.BYTES.csv names its capacity. Prints a Markdown table; every packing is judged by
`hwsim/allocation/judge.py`.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from hwsim.allocation.buffers import Buffer
from hwsim.allocation.judge import judge
from hwsim.allocation.pack import pack


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=10.0, help="limit of each instance")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--capacity", type=int, help="bytes, where the names of the files do not say")
    args = parser.parse_args(argv)
    warm_up = [Buffer("a", 2, 0, 2), Buffer("b", 1, 1, 4), Buffer("c", 2, 3, 6), Buffer("d", 1, 0, 1)]
    pack(warm_up, 3, 1, 1.0)
    print("| instance | buffers | fullest step | capacity | height | seconds | verdict |")
    print("|---|---:|---:|---:|---:|---:|---|")
    packed = 0
    files = sorted(args.folder.glob("*.csv"))
    for file in files:
        capacity = args.capacity or int(file.suffixes[-2].removeprefix("."))
        buffers = read(file)
        before = time.perf_counter()
        found = pack(buffers, capacity, align_bytes=1, time_limit_s=args.seconds, seed=args.seed)
        seconds = time.perf_counter() - before
        broken = judge(
            [(b.name, b.size_bytes, b.first, b.end) for b in buffers], found.offsets, found.height_bytes, 1
        )
        if broken or (found.verdict == "packed") != (found.height_bytes <= capacity):
            raise SystemExit(f"{file.name}: not a packing: {broken[:3]}")
        packed += found.verdict == "packed"
        print(
            f"| {file.name.split('.')[0]} | {len(buffers)} | {found.fullest_bytes:,} | {capacity:,} "
            f"| {found.height_bytes:,} | {seconds:.2f} | {found.verdict} |",
            flush=True,
        )
    print(f"\n{packed} of {len(files)} packed, at most {args.seconds:g} s each, seed {args.seed}")
    return 0


def read(file: Path) -> list[Buffer]:
    """The buffers of one file."""
    with file.open(newline="") as stream:
        return [
            Buffer(
                row["id"],
                int(row["size"]),
                int(row.get("lower") or row["start"]),
                int(row.get("upper") or row["end"]),
            )
            for row in csv.DictReader(stream)
        ]


if __name__ == "__main__":
    sys.exit(main())
