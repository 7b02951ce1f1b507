"""Vela's default, `egrl vela`, and random options with as many compiles: `python vela_options.py OUT.jsonl MODEL…`.

Prints and appends a line of JSON for each model on each of the devices: Vela's cycles by its default, by the best
program of the search, and by the best of each seed of the random options, all within the SRAM and with the default's
ops on the CPU. A random setting has a limit of a quarter to all of the SRAM that the search looks at, and each switch
with probability 1/4. Results are kept in runs/vela, and taken from there. `--compiles`, `--seeds`, `--jobs`,
`--devices 0,2` (places in `DEVICES`).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from egrl_vela import compiler
from egrl_vela.compiler import DEFAULT, OTHER_CORES, Outcome, Setting, Target
from egrl_vela.runner import Runner
from egrl_vela.search import GRAIN, LOWEST, Found, search

DEVICES = (
    ("ethos-u65-256", "Ethos_U65_High_End", "Dedicated_Sram_384KB"),
    ("ethos-u65-512", "Ethos_U65_Mid_End", "Dedicated_Sram_512KB"),
    ("ethos-u85-256", "Ethos_U85_SYS_DRAM_Mid", "Dedicated_Sram_384KB"),
    ("ethos-u85-1024", "Ethos_U85_SYS_DRAM_High", "Dedicated_Sram_512KB"),
    ("ethos-u55-128", "Ethos_U55_High_End_Embedded", "Shared_Sram"),
    ("ethos-u65-512", "Ethos_U65_Client_Server", "Dedicated_Sram_256KB"),
)


def drawn(flags: Sequence[str], seed: int) -> Callable[[Mapping[Setting, Outcome]], list[Setting]]:
    """Chooses random settings."""
    draw = random.Random(seed)

    def choose(outcomes: Mapping[Setting, Outcome]) -> list[Setting]:
        made = outcomes[DEFAULT].written
        assert made is not None
        reach = min(made.cache_bytes, made.sram_bytes)
        settings = []
        for _ in range(4):
            on = tuple(sorted(flag for flag in flags if draw.random() < 0.25))
            if any(flag in OTHER_CORES for flag in on):
                on = tuple(flag for flag in on if not flag.startswith("--disable-"))
            settings.append(Setting(int(reach * draw.uniform(LOWEST, 1.0)) // GRAIN * GRAIN, on))
        return settings

    return choose


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print a line for each model and device."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--compiles", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--devices", default=",".join(str(place) for place in range(len(DEVICES))))
    parser.add_argument("--vela", default="")
    args = parser.parse_args(argv)
    vela = compiler.find(args.vela)
    for model in args.models:
        for place in map(int, args.devices.split(",")):
            row = measured(vela, Target(model, *DEVICES[place]), args)
            line = json.dumps(row)
            print(line, flush=True)
            with Path(args.out).open("a", encoding="utf-8") as file:
                file.write(line + "\n")
    return 0


def measured(vela: compiler.Vela, target: Target, args: argparse.Namespace) -> dict[str, Any]:
    """One row: cycles and settings of each way."""
    data = Path(target.model).read_bytes()
    row: dict[str, Any] = {
        "model": Path(target.model).name,
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "accelerator": target.accelerator,
        "memory": target.memory,
        "vela": vela.version,
    }
    ways = [None, *(drawn(vela.flags_for(target), seed) for seed in range(args.seeds))]
    for number, choose in enumerate(ways):
        runner = Runner(vela, target, Path("runs/vela"), args.jobs, 600.0)
        start = time.monotonic()
        found = search(runner, args.compiles, lambda found: None, choose)
        if found is None:
            return {**row, "error": runner.outcomes[DEFAULT].error}
        name = f"random-{number - 1}" if choose else "search"
        row |= {"default": found.default.cycles, name: described(found, time.monotonic() - start)}
    return row


def described(found: Found, seconds: float) -> dict[str, Any]:
    """The best of one way."""
    best = found.ranked()[0]
    made = found.outcomes[best].written
    assert made is not None
    return {
        "cycles": made.cycles,
        "speedup": found.default.cycles / made.cycles,
        "options": best.words(),
        "sram_bytes": made.sram_bytes,
        "room_bytes": found.room_bytes,
        "compiles": len(found.outcomes),
        "failures": found.failures(),
        "seconds": round(seconds, 1),
    }


if __name__ == "__main__":
    raise SystemExit(main())
