"""How decoders with a key-value cache that they hold are imported, beside what PyTorch counts of the same programs.

    python -m benchmarks.import_caches [KIND ...]

Small models of transformers with a static cache of 32 places, exported with `torch.export`: a step of one token, and a
prompt of eight. Printed are the products that `FlopCounterMode` sees when the exported program runs and the module's
parameters, each beside the importer's count, and the bytes that a step reads from outside (of caches what the step
does not put there itself) beside those of the caches.
"""

from __future__ import annotations

import io
import logging
import sys
import warnings
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.import_torch import shrink
from workloads.importers import pt2_file
from workloads.importers.dimensions import Dimensions
from workloads.importers.read import Imported, convert

PLACES = 32
"""Of the cache."""
KINDS = [
    "cohere",
    "gemma",
    "gemma3_text",
    "glm",
    "gpt2",
    "gpt_neox",
    "gpt_oss",
    "granite",
    "llama",
    "llama4_text",
    "mistral",
    "mixtral",
    "olmo",
    "olmo2",
    "olmoe",
    "phi",
    "phi3",
    "qwen2",
    "qwen2_moe",
    "qwen3",
    "qwen3_moe",
    "smollm3",
    "stablelm",
    "starcoder2",
]


def exported(kind: str, tokens: int) -> tuple[torch.nn.Module, torch.export.ExportedProgram, dict[str, Any]]:
    """A small model of a kind, its program for so many tokens, and what that is called with."""
    from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig
    from transformers.integrations.executorch import TorchExportableModuleWithStaticCache

    config = AutoConfig.for_model(kind)
    shrink(config)
    config.num_hidden_layers, config.use_cache, config.max_position_embeddings = 2, True, 128
    config._attn_implementation = "eager" if kind == "gpt_oss" else "sdpa"
    config._experts_implementation = "batched_mm"  # the counter does not see into grouped ones
    model = AutoModelForCausalLM.from_config(config).eval()
    model.generation_config = GenerationConfig(
        use_cache=True,
        cache_implementation="static",
        max_length=PLACES,
        cache_config={"batch_size": 1, "max_cache_len": PLACES},
    )
    held = TorchExportableModuleWithStaticCache(
        model, batch_size=1, max_cache_len=PLACES, device=torch.device("cpu")
    )
    given = {"input_ids": torch.ones(1, tokens, dtype=torch.long), "cache_position": torch.arange(tokens)}
    with torch.no_grad():
        return model, torch.export.export(held, (), kwargs=given, strict=False), given


def imported(program: torch.export.ExportedProgram) -> Imported:
    """The program as it is read from its file."""
    file = io.BytesIO()
    torch.export.save(program, file)
    return convert(
        pt2_file.read(file.getvalue(), "program", Dimensions({})), "model", "model", None, fuse=True
    )


def row(kind: str, tokens: int) -> str:
    """A line of the table."""
    model, program, given = exported(kind, tokens)
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter, sdpa_kernel(SDPBackend.MATH):
        program.module()(**given)
    found = imported(program)
    macs, held = counter.get_total_flops() // 2, sum(p.numel() for p in model.parameters())
    caches = [b for name, b in program.named_buffers() if "key" in name or "value" in name]
    read = sum(op.external_bytes for op in found.workload)
    numbers = macs, found.workload.macs, held, found.workload.parameters
    cells = " | ".join(f"{number:,}" for number in (*numbers, read, sum(b.nbytes for b in caches)))
    return f"| `{kind}` | {tokens} | {cells} |"


def main(kinds: list[str]) -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    print(
        "| model | tokens | products, PyTorch | here | parameters, PyTorch | here | read from outside | caches |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for kind in kinds or KINDS:
        for tokens in (1, 8):
            print(row(kind, tokens), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
