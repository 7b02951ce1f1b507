"""Lower the networks of `programs` with JAX and write them as the programs that egrl ships.

    pip install "./plugins/hlo[jax]"
    python plugins/hlo/tools/lower_programs.py [NAME …] [--hlo FOLDER] [--check] [--cost]

Nothing is run: XLA's CPU back end compiles for shapes. `--hlo` keeps the text, `--check` writes nothing and fails where
a shipped program differs, `--cost` only compares operations and bytes with XLA's own analysis. The same version of JAX
gives the same files on every machine with AVX2.
"""

from __future__ import annotations

import argparse
import lzma
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

FLAGS = (
    "--xla_disable_hlo_passes=cse_barrier_expander",  # what layers.kept keeps must last until fusion
    "--xla_cpu_max_isa=AVX2",
    "--xla_backend_optimization_level=0",  # machine code is not wanted
    "--xla_llvm_disable_expensive_passes=true",
)
ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "workloads" / "programs" / "shipped"
_METADATA = re.compile(r', metadata=\{(?:[^"{}]|"(?:[^"\\]|\\.)*")*\}')
_TABLES = re.compile(r"\n(?:FileNames|FunctionNames|FileLocations|StackFrames)\n(?:[^\n]+\n)*")


def compiled(name: str) -> Any:
    """A program of the catalog as JAX compiles it: its text, XLA's analysis of its cost."""
    import jax
    from programs.catalog import PROGRAMS

    function, shapes, donated = PROGRAMS[name].step()
    return jax.jit(function, donate_argnums=donated).lower(*shapes).compile()


def cost(name: str, analysis: dict[str, float]) -> str:
    """Operations and bytes of a shipped program over those that XLA counts."""
    from workloads.load import describe, load_program

    sizes = describe(load_program(name))
    flops, moved = sizes["flops"] / analysis["flops"], sizes["bytes"] / analysis["bytes accessed"]
    return f"{name}: {flops:.3f} of XLA's operations, {moved:.3f} of its bytes"


def plain(text: str) -> str:
    """HLO text without where in a Python file its instructions come from."""
    return _TABLES.sub("\n", _METADATA.sub("", text))


def packed(name: str, text: str) -> bytes:
    """The program as it is shipped."""
    import jax
    from programs.catalog import PROGRAMS

    from egrl_hlo import of_text
    from workloads.programs.json_file import to_json

    source = f"{PROGRAMS[name].summary}; XLA's CPU back end, jax {jax.__version__}"
    program = of_text(text, name, source, name)
    for remark in program.remarks:
        print(f"{name}: {remark}", file=sys.stderr)
    return lzma.compress(to_json(program).encode(), lzma.FORMAT_XZ, preset=9 | lzma.PRESET_EXTREME)


def main() -> int:
    os.environ["XLA_FLAGS"] = " ".join(FLAGS)
    os.environ["JAX_PLATFORMS"] = "cpu"
    sys.path.insert(0, str(ROOT))
    from programs.catalog import PROGRAMS

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PROGRAMS)}")
    parser.add_argument("--hlo", type=Path, help="folder for the HLO text")
    parser.add_argument("--check", action="store_true", help="only compare with what is shipped")
    parser.add_argument("--cost", action="store_true", help="only compare with XLA's own analysis of cost")
    given = parser.parse_args()
    unknown = sorted(set(given.names) - set(PROGRAMS))
    if unknown:
        parser.error(f"expected names of {', '.join(PROGRAMS)}, found {', '.join(unknown)}")
    FOLDER.mkdir(exist_ok=True)
    differs = 0
    for name in given.names or PROGRAMS:
        began = time.time()
        program = compiled(name)
        if given.cost:
            print(cost(name, program.cost_analysis()), flush=True)
            continue
        text = program.as_text()
        if given.hlo is not None:
            given.hlo.mkdir(parents=True, exist_ok=True)
            (given.hlo / f"{name}.hlo").write_text(plain(text))
        data, file = packed(name, text), FOLDER / f"{name}.json.xz"
        same = file.exists() and file.read_bytes() == data
        differs += not same
        if not given.check:
            file.write_bytes(data)
        print(
            f"{name}: {len(data)} bytes, {'as it was' if same else 'new'}, {time.time() - began:.1f} s",
            flush=True,
        )
    return int(given.check and differs > 0)


if __name__ == "__main__":
    sys.exit(main())
