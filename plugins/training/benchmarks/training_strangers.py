"""Architectures that nobody here wrote, with random weights, within limits of memory: right, and at what peak?

    python -m benchmarks.training_strangers [--backend aot_eager] [--limits 1.0,0.8,half,least] [--only TEXT]
        [--json FILE]

They come from torchvision, timm and transformers, which must be installed; names that a version does not have are left
out. Numbers are float64. Losses, gradients, parameters and buffers are compared with eager mode (what is further off
counts as right only if plain `torch.compile` gives the same), and the measured peak with the planned one (a step with
random numbers is compared under one seed).
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import torch._inductor.config as inductor
from benchmarks.kinds.kind import difference
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import egrl_training as training
from egrl_training.pytorch.counted import tensors_of
from egrl_training.pytorch.peak import peak_of

TOLERANCE = {"aot_eager": 1e-9, "inductor": 1e-5}
LIMITS = "1.0,0.8,0.6,half,least"
"""Fractions of the peak of keeping every value; the least peak that a refusal names, and halfway from there to all."""
IMPOSSIBLE = 1e-6
"""A fraction within which nothing fits, so that the refusal names the least peak."""
LEFT_FREE = 1024
"""Bytes above the least peak: a limit needs some for scalars."""
SMALLEST = 64
"""Rows of an image, for networks that read images of any size."""
VISION = """
    alexnet vgg11_bn resnet18 resnet50 resnext50_32x4d wide_resnet50_2 densenet121 squeezenet1_1
    mobilenet_v2 mobilenet_v3_small shufflenet_v2_x0_5 mnasnet0_5 efficientnet_b0 regnet_y_400mf
    convnext_tiny swin_t vit_b_32 googlenet
"""
TIMM = """
    resnetv2_50 resnetrs50 seresnet50 ecaresnet26t skresnet18 res2net50_26w_4s dla34 dpn68
    hrnet_w18_small repvgg_a0 ghostnet_100 mobilevit_xs edgenext_xx_small poolformer_s12
    convmixer_768_32 mixer_s32_224 gmlp_s16_224 resmlp_12_224 deit_tiny_patch16_224 cait_xxs24_224
    crossvit_tiny_240 pit_ti_224 twins_pcpvt_small xcit_nano_12_p16_224 levit_128s visformer_tiny
    coat_tiny nest_tiny maxvit_pico_rw_256 efficientformer_l1 fastvit_t8 tf_efficientnetv2_b0
"""
TRANSFORMERS: dict[str, dict[str, Any]] = {
    "BertConfig": {},
    "RobertaConfig": {},
    "DistilBertConfig": {"dim": 64, "n_heads": 4, "hidden_dim": 128, "n_layers": 3},
    "ElectraConfig": {"embedding_size": 64},
    "AlbertConfig": {"embedding_size": 32},
    "DebertaV2Config": {},
    "GPT2Config": {"n_embd": 64, "n_layer": 3, "n_head": 4},
    "GPTNeoXConfig": {},
    "OPTConfig": {"ffn_dim": 128, "word_embed_proj_dim": 64},
    "LlamaConfig": {"num_key_value_heads": 2},
    "MistralConfig": {"num_key_value_heads": 2},
    "Qwen2Config": {"num_key_value_heads": 2},
    "GemmaConfig": {"num_key_value_heads": 2, "head_dim": 16},
    "PhiConfig": {},
    "MixtralConfig": {"num_key_value_heads": 2, "num_local_experts": 4},
}
SMALL = {
    "vocab_size": 512,
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "pad_token_id": 0,
}
Step = tuple[nn.Module, Sequence[Any]]


class _Loss(nn.Module):
    """A number to minimise, of whatever a network returns first."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, *inputs: Tensor) -> Tensor:
        out = self.net(*inputs)
        while not isinstance(out, Tensor):
            out = out[0] if isinstance(out, tuple | list) else next(iter(out.values()))
        return out.sin().square().mean()


class _Reads(TorchDispatchMode):
    """Notes which memory ops read: networks have buffers that nothing reads, and that no graph has."""

    def __init__(self) -> None:
        super().__init__()
        self.places: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.places |= {t.untyped_storage().data_ptr() for t in tensors_of((args, kwargs))}
        return func(*args, **(kwargs or {}))


def strangers() -> Iterator[tuple[str, Callable[[], Step]]]:
    """A name, and what builds the network and its inputs."""
    import timm
    import torchvision
    import transformers

    def image(net: nn.Module, size: int) -> Step:
        return _Loss(net), (torch.randn(2, 3, size, size, dtype=torch.float64),)

    def of_timm(name: str) -> Step:
        net = timm.create_model(name)
        size = net.default_cfg["input_size"][-1] if net.default_cfg.get("fixed_input_size") else SMALLEST
        return image(net, size)

    for name in VISION.split():
        if hasattr(torchvision.models, name):
            make = getattr(torchvision.models, name)
            size = 224 if name.startswith("vit") else SMALLEST
            yield f"torchvision {name}", lambda make=make, size=size: image(make(weights=None), size)
    for name in TIMM.split():
        if timm.is_model(name):
            yield f"timm {name}", lambda name=name: of_timm(name)
    for name, more in TRANSFORMERS.items():
        if hasattr(transformers, name):

            def build(name: str = name, more: dict[str, Any] = more) -> Step:
                config = getattr(transformers, name)(**{**SMALL, **more})
                config._experts_implementation = "batched_mm"  # grouped products know no float64
                net = transformers.AutoModel.from_config(config)
                return _Loss(net), (torch.randint(1, 512, (4, 32)),)

            yield f"transformers {name.removesuffix('Config')}", build


def _step(
    build: Callable[[], Step], wrap: Callable[[nn.Module], Any]
) -> tuple[list[Tensor], Callable[[], int]]:
    """What a step leaves, and what measures the peak of another."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    net, inputs = build()
    net = net.double().train()
    function = wrap(net)
    torch.manual_seed(1)
    loss = function(*inputs)
    loss.backward()
    gradients = [each.grad for each in net.parameters() if each.grad is not None]
    results = [loss.detach(), *gradients, *net.buffers(), torch.rand(1)]

    def peak() -> int:
        for each in net.parameters():
            each.grad = None
        with _Reads() as reads, torch.no_grad():
            net(*inputs)
        given = (t.untyped_storage() for t in (*net.parameters(), *net.buffers(), *inputs))
        there = {storage.data_ptr(): storage.nbytes() for storage in given}
        fixed = sum(size for place, size in there.items() if place in reads.places)
        return fixed + peak_of(lambda: function(*inputs).backward(), torch.device("cpu"))

    return [each.detach().clone() for each in results], peak


def outcome(build: Callable[[], Step], wanted: list[Tensor], backend: str, **limit: Any) -> dict[str, Any]:
    """Whether a step within a limit is right, and its measured over its planned peak; or why there is none."""
    try:
        with training.memory_limit(**limit, seconds=4, quiet=True) as plans:
            found, peak = _step(build, lambda net: torch.compile(net, backend=backend))
        planned = sum(each.peak_bytes for each in plans)
        ratio = peak() / planned if len(plans) == 1 else None
    except Exception as error:
        return {"word": type(error).__name__, "detail": str(error)[:200]}
    off = difference(found, wanted)
    if off > TOLERANCE[backend]:  # other random numbers than in eager mode, say
        off = difference(found, _step(build, lambda net: torch.compile(net, backend=backend))[0])
    word = "right" if off <= TOLERANCE[backend] else "WRONG"
    every = sum(each.all_peak_bytes for each in plans)
    return {"word": word, "off": off, "measured / planned": ratio, "plans": len(plans), "all kept": every}


def within_limits(
    build: Callable[[], Step], wanted: list[Tensor], backend: str, limits: str = LIMITS
) -> dict[str, dict[str, Any]]:
    """The outcome at each of some limits, as in `LIMITS`, the fractions from the largest on: below one that is refused
    all are."""
    found: dict[str, dict[str, Any]] = {}
    refused: dict[str, Any] = {}
    for limit in limits.split(","):
        if limit in ("half", "least"):
            refused = refused or outcome(build, wanted, backend, fraction=IMPOSSIBLE)
            ends = _ends(refused, found.values())
            part = 0.5 if limit == "half" else 0.0
            given = (
                {"limit": int(ends[0] + part * (ends[1] - ends[0])) + LEFT_FREE}
                if ends
                else {"fraction": 0.1}
            )
            found[limit] = outcome(build, wanted, backend, **given)
        else:
            found[limit] = refused or outcome(build, wanted, backend, fraction=float(limit))
            refused = refused or (found[limit] if _least(found[limit]) else {})
    return found


def _least(refused: dict[str, Any]) -> int:
    """The least peak that a refusal names; 0 if it is none."""
    named = re.search(r"(?:at least|is) (\d+) bytes", refused.get("detail", ""))
    return int(named[1]) if named else 0


def _ends(refused: dict[str, Any], known: Collection[dict[str, Any]]) -> list[int]:
    """Bytes of the least peak and of the peak of keeping every value; empty if one is not known."""
    most = [each["all kept"] for each in known if each.get("plans") == 1]
    return [_least(refused), most[0]] if _least(refused) and most else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="aot_eager", choices=list(TOLERANCE))
    parser.add_argument("--limits", default=LIMITS)
    parser.add_argument("--only", default="", help="architectures whose name has this text")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    inductor.fallback_random = True  # random numbers as in eager mode
    rows: dict[str, Any] = {}
    for name, build in strangers():
        if asked.only not in name:
            continue
        try:
            wanted, _ = _step(build, lambda net: net)
        except Exception as error:  # an op that knows no float64, say
            print(f"{name}: eager mode ends with {type(error).__name__}: {str(error)[:100]}", flush=True)
            continue
        rows[name] = within_limits(build, wanted, asked.backend, asked.limits)
        for limit, found in rows[name].items():
            print(f"{name} {limit}: {found}", flush=True)
        if asked.json:
            asked.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
