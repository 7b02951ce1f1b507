"""Write the networks that ship as files (workloads/zoo/shipped/NAME.json.xz), or one of them in another size.

python tools/make_zoo.py                                    # all of them
python tools/make_zoo.py --check                            # writes nothing, fails where a shipped file differs
python tools/make_zoo.py dcgan:batch=4 -o dcgan-batch4.json  # for --workload dcgan-batch4.json
"""

from __future__ import annotations

import argparse
import lzma
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

from workloads.errors import InputError
from workloads.load import variant
from workloads.serialize import to_json
from workloads.workload import Workload
from workloads.zoo.builder import variant_name
from workloads.zoo.mcm87 import SHIPPED
from zoo.catalog import NETWORKS

FOLDER = Path(__file__).resolve().parents[1] / "workloads" / "zoo" / SHIPPED


def network(given: str) -> Workload:
    """The network called NAME or NAME:KEY=NUMBER:…, made by its builder. InputError for unknown names and keys."""
    name, colon, parameters = given.partition(":")
    if name not in NETWORKS:
        raise InputError(f"network {given!r}: expected one of {', '.join(NETWORKS)}")
    build = NETWORKS[name]
    sizes = variant(build, parameters, f"network {given!r}") if colon else {}
    try:
        return replace(build(**sizes), name=variant_name(name, build, **sizes))
    except ValueError as error:
        raise InputError(f"network {given!r}: {error}") from error


def text(name: str) -> str:
    """The content of the shipped file of that name."""
    return to_json(network(name))


def main() -> int:
    """Write or check the files; 1 where `--check` finds a difference, 2 for a mistake in the arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("network", nargs="?", help="one network, NAME or NAME:KEY=NUMBER:…, as JSON")
    parser.add_argument("-o", "--output", type=Path, help="file for that network's JSON [standard output]")
    parser.add_argument("--check", action="store_true", help="only compare with what is shipped")
    given = parser.parse_args()
    if given.network:
        try:
            made = text(given.network)
        except InputError as error:
            parser.error(str(error))
        write = partial(print, end="") if given.output is None else given.output.write_text
        write(made)
        return 0
    differs = 0
    FOLDER.mkdir(exist_ok=True)
    for name in NETWORKS:
        file, made = FOLDER / f"{name}.json.xz", text(name).encode()
        if file.exists() and lzma.decompress(file.read_bytes()) == made:
            continue
        differs += 1
        print(f"{name}: {'differs' if given.check else 'written'}")
        if not given.check:
            file.write_bytes(lzma.compress(made, lzma.FORMAT_XZ, preset=9 | lzma.PRESET_EXTREME))
    return int(given.check and differs > 0)


if __name__ == "__main__":
    sys.exit(main())
