"""Names of DFTs and of this machine on the command line, and their files in a run folder."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from egrl_fft.grammar import MOST
from workloads.errors import InputError
from workloads.files import parse_toml, read_text
from workloads.json_text import parse_document

KIND, VERSION = "dft", 1


def load_size(name: str) -> int:
    """N of "dft-N", or of a file that a run keeps of it (dft.json).

    Raises:
        InputError: another name, or N outside 1 .. 2^24.
    """
    if name.endswith(".json"):
        document = parse_document(read_text(name, "a DFT's file (dft.json)"), name, KIND, VERSION)
        name = f"dft-{document.get('size')}"
    found = re.fullmatch(r"dft-(\d{1,9})", name)
    size = int(found.group(1)) if found else 0
    if not 1 <= size <= MOST:
        raise InputError(f"--workload: expected dft-N with N from 1 to {MOST}, found {name!r}")
    return size


def check_chip(name: str) -> None:
    """InputError unless it is this machine, "host", or the file that a run keeps of it."""
    if name == "host":
        return
    if Path(name).name != "machine.toml":
        raise InputError(f"--chip: expected host (plans are measured on this machine), found {name!r}")
    table = parse_toml(read_text(name, "the machine of a run (machine.toml)"), name)
    if table.get("kind") != "machine":
        raise InputError(f"{name}: kind: expected 'machine', found {table.get('kind')!r}")


def run_files(size: int) -> Mapping[str, str]:
    """The size, and the machine on which it is measured, as text, by file name."""
    from egrl_fft.measured import LIBRARY_VERSION
    from hwsim.kernel_cache import machine_name

    dft = json.dumps({"kind": KIND, "version": VERSION, "size": size}) + "\n"
    machine = f'kind = "machine"\nversion = 1\nname = "{machine_name()}"\nlibrary = {LIBRARY_VERSION}\n'
    return {"dft.json": dft, "machine.toml": machine}
