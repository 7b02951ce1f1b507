"""How imported PyTorch modules compare with what PyTorch counts.

    python benchmarks/import_torch.py OUT.jsonl [FAMILY …] [--route onnx] [--size N] [--every K] [--seconds S]

counts architectures of torchvision, timm and transformers (those families that are installed, or the ones named),
without weights, on PyTorch's `meta` device, or with random weights as `torch.onnx.export` writes them:
multiply-accumulates beside half of what `torch.utils.flop_counter.FlopCounterMode` sees when the module runs,
parameters beside those of the module (of which `torch.onnx.export` writes what the program reads), or beside the
numbers in the file where the exporter has computed some. A line a module is added to OUT.jsonl; modules that are there
already are left out. Then a table of every difference of more than 1 % is printed, with the products by op on both
sides. `--size` is 0 or 1: the smaller or the larger input; `--every K` takes each K-th module; no module is begun after
S seconds.

FlopCounterMode does not see the products of `_int_mm`, `mv`, `dot`, `bilinear`, `addbmm`, `cdist`, `conv_tbc`, packed
weights, recurrent layers that a CPU fuses, and ops of other packages. It sees dead ends, which an importer leaves out:
where counts differ, the exported program is counted once more without them.
"""

from __future__ import annotations

import argparse
import copy
import gc
import io
import json
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from workloads.errors import InputError
from workloads.importers import onnx_file, pt2_file
from workloads.importers.dimensions import Dimensions
from workloads.importers.ir import ModelGraph
from workloads.importers.read import convert

LIMIT_S = 150
"""Seconds for one module."""
MOST_HELD = 30_000_000
"""Parameters of a module that is built with weights."""
SMALL = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "embedding_size"), 64),
    **dict.fromkeys(("num_hidden_layers", "encoder_layers", "decoder_layers", "n_layer", "n_layers"), 2),
    **dict.fromkeys(
        ("num_attention_heads", "encoder_attention_heads", "decoder_attention_heads", "n_head"), 4
    ),
    **dict.fromkeys(("n_heads", "num_key_value_heads"), 4),
    **dict.fromkeys(
        ("intermediate_size", "encoder_ffn_dim", "decoder_ffn_dim", "ffn_dim", "moe_intermediate_size"), 96
    ),
    **dict.fromkeys(("vocab_size",), 256),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "moe_topk", "top_k_experts"), 2),
    **dict.fromkeys(("n_group", "topk_group"), 1),
    "pad_token_id": 0,
    "head_dim": 16,
    "num_layers": 2,
}
"""What makes a configuration of transformers a small one."""

REASONS = {
    "transformers/mra": "without its kernel it makes zeros of the queries' shape: the queries themselves are not read",
    "transformers/pegasus_x": "the last layer's global tokens end in a dropout, which PyTorch keeps",
    "transformers/radio": "positions are cut out of a larger table, once: what is cut out is held",
    "transformers/sam3_vision_model": "tables of angles are computed once, of larger ones in the file",
    "timm/convit_tiny": "tables of relative positions are computed once, of larger ones in the file",
    "transformers/gradium_phonon_tts": "the exporter to ONNX multiplies two constants",
}
"""Why counts differ where that is no fault."""

Case = tuple[str, Callable[[], tuple[torch.nn.Module, tuple[Any, ...]]]]


def made_on(device: str, build: Callable[[], Any]) -> Any:
    """What `build` makes (a module, tensors); without weights on the device `meta`, built elsewhere where it looks at
    them."""
    try:
        with torch.device(device):
            return build()
    except (RuntimeError, NotImplementedError):
        return build().to(device)


LEFT_OUT = ("quantized", "ssd", "fcos", "retinanet", "keypoint", "faster", "mask", "raft")
"""What torchvision has beside networks of one input and fixed sizes."""


def vision(size: int, device: str) -> Iterator[Case]:
    """torchvision: classification, segmentation, video."""
    import torchvision.models as zoo

    for name in zoo.list_models():
        if not name.startswith(LEFT_OUT):
            yield name, lambda name=name: _of_torchvision(name, size, device)


def _of_torchvision(name: str, size: int, device: str) -> tuple[torch.nn.Module, tuple[Any, ...]]:
    import torchvision.models as zoo

    edge = 224 if size or name.startswith(("vit", "maxvit", "googlenet")) else 128
    shape: tuple[int, ...] = (1, 3, edge, edge)
    if name.startswith(("mvit", "swin3d", "s3d")):
        shape = (1, 3, 16, 224, 224)
    elif name.startswith(("r3d", "mc3", "r2plus1d")):
        shape = (1, 3, 8, edge, edge)
    elif name == "inception_v3":
        shape = (1, 3, 299, 299)
    backbone = {"weights_backbone": None} if name.startswith(("fcn", "deeplab", "lraspp")) else {}
    module = made_on(device, lambda: zoo.get_model(name, weights=None, **backbone))
    return module, (torch.zeros(shape, device=device),)


def timm_models(size: int, device: str) -> Iterator[Case]:
    """timm: the four smallest names of each module's models."""
    import timm

    small = ("test", "atto", "femto", "pico", "nano", "xxs", "xs", "tiny", "small", "mini", "18", "s_", "b0")
    for module in timm.list_modules():
        names = timm.list_models(module=module)
        names.sort(
            key=lambda name: (next((i for i, part in enumerate(small) if part in name), len(small)), name)
        )
        for name in names[:4]:
            yield name, lambda name=name: _of_timm(name, size, device)


def _of_timm(name: str, size: int, device: str) -> tuple[torch.nn.Module, tuple[Any, ...]]:
    import timm

    module = made_on(device, lambda: timm.create_model(name))
    channels, *edges = module.default_cfg["input_size"]
    if not size and not module.default_cfg.get("fixed_input_size"):
        edges = [max(64, edge // 2 // 32 * 32) for edge in edges]
    return module, (torch.zeros(2, channels, *edges, device=device),)


def transformers_models(size: int, device: str) -> Iterator[Case]:
    """transformers: every kind of configuration that reads tokens, made small."""
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    for name in sorted(MODEL_MAPPING_NAMES):
        yield name, lambda name=name: _of_transformers(name, size, device)


def _of_transformers(name: str, size: int, device: str) -> tuple[torch.nn.Module, tuple[Any, ...]]:
    from transformers import AutoConfig, AutoModel

    config = AutoConfig.for_model(name)
    shrink(config)
    config.use_cache = False
    config._experts_implementation = "batched_mm"  # the counter does not see into grouped ones
    made = _reading(made_on(device, lambda: AutoModel.from_config(config)), config, size, device)
    try:
        with torch.device(device), torch.no_grad():
            made[0](*made[1])
    except (RuntimeError, NotImplementedError):  # it looks at numbers while it runs
        if sum(p.numel() for p in made[0].parameters()) < MOST_HELD:
            return _reading(AutoModel.from_config(config), config, size, "cpu")
    return made


def shrink(config: Any) -> None:
    for key, value in SMALL.items():
        if isinstance(getattr(config, key, None), int):
            setattr(config, key, value)
    for part in getattr(config, "sub_configs", {}):
        if getattr(config, part, None) is not None:
            shrink(getattr(config, part))


def _reading(model: Any, config: Any, size: int, device: str) -> tuple[torch.nn.Module, tuple[Any, ...]]:
    """The model, and what it reads first: tokens, images or sound."""
    if model.main_input_name == "input_ids":
        return _Tokens(model), (torch.ones(1, (16, 48)[size], dtype=torch.long, device=device),)
    if model.main_input_name == "pixel_values":
        edge = getattr(config, "image_size", None) or 64
        edge = edge if isinstance(edge, int) else edge[0]
        shape = (1 + size, getattr(config, "num_channels", 3), edge, edge)
        return _Named(model, "pixel_values"), (torch.zeros(shape, device=device),)
    return _Named(model, model.main_input_name), (torch.zeros(1 + size, 16000, device=device),)


class _Named(torch.nn.Module):
    """A model of transformers that reads one input, and gives its tensors."""

    def __init__(self, model: torch.nn.Module, key: str) -> None:
        super().__init__()
        self.model, self.key = model, key

    def forward(self, read: torch.Tensor) -> Any:
        found = self.model(**{self.key: read}, **self.more(read))
        return [value for value in tree_leaves(found) if isinstance(value, torch.Tensor)]

    def more(self, read: torch.Tensor) -> dict[str, Any]:
        return {}


class _Tokens(_Named):
    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__(model, "input_ids")

    def more(self, read: torch.Tensor) -> dict[str, Any]:
        return {"decoder_input_ids": read} if self.model.config.is_encoder_decoder else {}


FAMILIES: dict[str, Callable[[int, str], Iterator[Case]]] = {
    "torchvision": vision,
    "timm": timm_models,
    "transformers": transformers_models,
}


def counted(module: torch.nn.Module, inputs: tuple[Any, ...], route: str = "export") -> dict[str, Any]:
    """What PyTorch and the importer count of a module: products, parameters, products by op, seconds."""
    with torch.device(inputs[0].device):
        return _counted(
            module.eval().requires_grad_(False), inputs, route
        )  # the counter stumbles over gradients


def _counted(module: torch.nn.Module, inputs: tuple[Any, ...], route: str) -> dict[str, Any]:
    torch.backends.mha.set_fastpath_enabled(False)
    counter = _run(module, inputs)
    by_op = {str(op): flops // 2 for op, flops in counter.get_flop_counts().get("Global", {}).items()}
    begun = time.monotonic()
    program, graph, in_file = ROUTES[route](module, inputs)
    seconds = time.monotonic() - begun
    begun = time.monotonic()
    found = convert(graph, "model", "model", None, fuse=False)
    macs, parameters = int(counter.get_total_flops()) // 2, _parameters(program, module, route)
    if (macs, parameters) != (found.workload.macs, found.workload.parameters):
        macs, alive = _alive(torch.export.export(module, inputs), inputs)
        parameters = alive if route == "onnx" else parameters
    ours = Counter[str]()
    ops = {node.name: node.op for node in graph.nodes}
    for op in found.workload:
        head = next(iter(found.nodes.get(op.name, ())), "")
        ours[ops.get(head, "")] += op.gemm.macs if op.gemm else 0
    return {
        "macs": macs,
        "as_run": counter.get_total_flops() // 2,
        "ours": found.workload.macs,
        "parameters": parameters,
        "our_parameters": found.workload.parameters,
        "in_file": in_file,
        "by_op": by_op,
        "our_ops": {name: macs for name, macs in ours.items() if macs},
        "remarks": [remark[:150] for remark in found.remarks],
        "export_s": round(seconds, 2),
        "import_s": round(time.monotonic() - begun, 2),
    }


def _run(module: torch.nn.Module, inputs: tuple[Any, ...]) -> FlopCounterMode:
    """What the counter sees: on `meta`, where attention is taken apart, unless the module looks at numbers."""
    try:
        given = copy.deepcopy(module).to("meta"), tuple(each.to("meta") for each in inputs)
        with torch.device("meta"):
            return _counting(*given)
    except (RuntimeError, NotImplementedError):
        return _counting(module, inputs)


def _counting(module: torch.nn.Module, inputs: tuple[Any, ...]) -> FlopCounterMode:
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH), torch.no_grad():
        module(*inputs)
    return counter


Read = tuple[torch.export.ExportedProgram, ModelGraph, int | None]
"""A program, the graph that is imported of it, and how many numbers its file has where the exporter computes some."""


def _by_export(module: torch.nn.Module, inputs: tuple[Any, ...]) -> Read:
    program = torch.export.export(module, inputs)
    stream = io.BytesIO()
    torch.export.save(program, stream)
    return program, pt2_file.read(stream.getvalue(), "model", Dimensions({})), None


def _by_onnx(module: torch.nn.Module, inputs: tuple[Any, ...]) -> Read:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "model.onnx")
        made = torch.onnx.export(module, inputs, file, dynamo=True, verbose=False, external_data=True)
        assert made is not None
        held = (tensor.const_value for tensor in made.model.graph.initializers.values())
        in_file = sum(each.size for each in held if each is not None and each.dtype.is_floating_point())
        return made.exported_program, onnx_file.read(file.read_bytes(), str(file), Dimensions({})), in_file


ROUTES: dict[str, Callable[[torch.nn.Module, tuple[Any, ...]], Read]] = {
    "export": _by_export,
    "onnx": _by_onnx,
}
DEVICES = {"export": "meta", "onnx": "cpu"}
"""Where modules are made: a file of ONNX has weights."""


def _parameters(program: torch.export.ExportedProgram, module: torch.nn.Module, route: str) -> int:
    """Those of a module; of the route through ONNX, those that its program reads."""
    used = {n.name for n in program.graph.nodes if n.op == "placeholder" and n.users}
    named = dict(program.named_parameters())
    keys = program.graph_signature.inputs_to_parameters.items()
    read = {id(named[key]): named[key] for name, key in keys if name in used}
    held = read.values() if route == "onnx" else module.parameters()
    return sum(parameter.numel() for parameter in held)


def _alive(program: torch.export.ExportedProgram, inputs: tuple[Any, ...]) -> tuple[int, int]:
    """Products and parameters of an exported program without its dead ends."""
    module = program.module()
    for node in [node for node in module.graph.nodes if "_assert" in str(node.target)]:
        module.graph.erase_node(node)
    module.graph.eliminate_dead_code()
    module.recompile()
    counter = _run(module, inputs)
    read = {node.target for node in module.graph.nodes if node.op == "get_attr"}
    held = {id(p): p for name in read if isinstance(p := attrgetter(name)(module), torch.nn.Parameter)}
    return counter.get_total_flops() // 2, sum(p.numel() for p in held.values())


def _outcome(build: Callable[[], tuple[torch.nn.Module, tuple[Any, ...]]], route: str) -> dict[str, Any]:
    def stop(*_: Any) -> None:
        raise TimeoutError(f"more than {LIMIT_S} s")

    warnings.filterwarnings("ignore")
    signal.signal(signal.SIGALRM, stop)
    signal.alarm(LIMIT_S)
    try:
        return counted(*build(), route)
    except InputError as error:
        return {"refused": str(error)[:300]}
    except Exception as error:  # what libraries say of modules that they cannot build, run or export
        return {"failed": f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"}
    finally:
        signal.alarm(0)
        gc.collect()


def _rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def apart(file: Path) -> list[dict[str, Any]]:
    """The modules of a file that `main` wrote whose products or parameters differ by more than 1 %."""
    return [row for row in _rows(file) if "macs" in row and max(map(abs, _shares(row))) > 0.01]


def _shares(row: dict[str, Any]) -> tuple[float, float]:
    macs, parameters = row["macs"], row["parameters"]
    if row.get("in_file") is not None and abs(row["our_parameters"] - parameters) > 0.01 * parameters:
        parameters = row["in_file"]  # the exporter has computed tables of weights
    return (
        row["ours"] / macs - 1 if macs else float(row["ours"] > 0),
        row["our_parameters"] / parameters - 1 if parameters else float(row["our_parameters"] > 0),
    )


def table(file: Path) -> None:
    """Print how many modules agree, and those that do not."""
    rows, different = _rows(file), apart(file)
    good = [row for row in rows if "macs" in row]
    print(f"{len(rows)} modules: {len(good)} counted, {len(good) - len(different)} of them within 1 %,")
    refused, failed = (sum(key in row for row in rows) for key in ("refused", "failed"))
    print(f"{refused} refused, {failed} not built or exported\n")
    print(
        "| module | products | difference | parameters | difference | PyTorch by op | here by op | reason |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for row in different:
        macs, parameters = _shares(row)
        print(
            f"| {row['name']} ({row['size']}) | {row['macs']:,} | {macs:+.2%} | {row['parameters']:,}"
            f" | {parameters:+.2%} | {row['by_op']} | {row['our_ops']} | {REASONS.get(row['name'], '')} |"
        )
    for row in rows:
        if "macs" not in row:
            print(f"{row['name']} ({row['size']}): {row.get('refused') or row['failed']}")


def main(argv: list[str]) -> int:
    """Count, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("families", nargs="*")
    parser.add_argument("--size", type=int, choices=(0, 1), default=0)
    parser.add_argument("--route", choices=tuple(ROUTES), default="export")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    given = parser.parse_args(argv)
    end = time.monotonic() + given.seconds
    known = {(row["name"], row["size"]) for row in _rows(given.out)}
    for family in given.families or FAMILIES:
        for at, (name, build) in enumerate(FAMILIES[family](given.size, DEVICES[given.route])):
            if at % given.every or (f"{family}/{name}", given.size) in known or time.monotonic() > end:
                continue
            row = {"name": f"{family}/{name}", "size": given.size, **_outcome(build, given.route)}
            with given.out.open("a") as stream:
                stream.write(json.dumps(row) + "\n")
            print(row["name"], row.get("refused") or row.get("failed") or "", file=sys.stderr)
    table(given.out)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
