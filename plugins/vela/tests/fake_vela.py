"""A compiler for tests that is called as Arm's Vela is. Its cycles are steps of the SRAM limit and depend on switches.

`behaviour.json` beside it has what is to go wrong, by words that are looked for in the options, and `program.tflite`
the program. Each call is a line of `calls.txt`.
"""

import csv
import json
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
KIB = 1024
MODE_KIB = 384
HELP = "--arena-cache-size --optimise {Size,Performance} --disable-cascading --debug-force-legacy-core"
SUMMARY = [
    "network", "arena_cache_size", "sram_memory_used", "dram_total_bytes", "off_chip_flash_total_bytes",
    "on_chip_flash_total_bytes", "cycles_total",
]  # fmt: skip


def cycles(limit_kib: float, words: str) -> float:
    """8 M at first; 6 M from 300 KiB down to 200; less SRAM costs more. Without cascades 5 % less."""
    found = 8e6 if limit_kib > 300 else 6e6 if limit_kib > 200 else 9e6
    found += 1e3 * (MODE_KIB - limit_kib)
    return found * (0.95 if "--disable-cascading" in words else 1) * (1.5 if "Size" in words else 1)


def main() -> None:
    behaviour = json.loads((HERE / "behaviour.json").read_text())
    words = " ".join(sys.argv[1:])
    if "--version" in words:
        print(behaviour.get("version", "5.2.0"))
        return
    if "--help" in words:
        print(behaviour.get("help", HELP))
        return
    with (HERE / "calls.txt").open("a") as calls:
        calls.write(words + "\n")
    options = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
    for word, error in behaviour.get("fail", {}).items():
        if word in words:
            print(error)
            raise SystemExit(1)
    for word in behaviour.get("hang", ()):
        if word in words:
            time.sleep(600)
    limit = int(options.get("--arena-cache-size", MODE_KIB * KIB)) / KIB
    stem, folder = Path(sys.argv[1]).stem, Path(options["--output-dir"])
    total = cycles(limit, words) * behaviour.get("scale", 1)
    used = limit * 0.97 + behaviour.get("over_kib", 0)
    name = next(
        (name for word, name in behaviour.get("program", {}).items() if word in words), "program.tflite"
    )
    program = (HERE / name).read_bytes() + str((total, used)).encode()
    (folder / f"{stem}_vela.tflite").write_bytes(program)
    for name, rows in (
        (
            f"{stem}_summary_{options['--system-config']}.csv",
            [SUMMARY, [stem, limit, used, total, 0, 0, total]],
        ),
        (
            f"{stem}_per-layer.csv",
            [
                ["NNG Operator", "Op Cycles", "Network%", "Network%", "Name"],
                ["Conv2D", total * 0.25, 25, 25, "first;fused"],
                ["NNG Operator", "Op Cycles", "Network%", "Network%", "Name"],
                ["Conv2D", total * 0.75, 75, 75, "second"],
            ],
        ),
    ):
        if name not in behaviour.get("missing", ()):
            with (folder / name).open("w", newline="") as file:
                csv.writer(file).writerows(rows)


main()
