"""The shipped programs by name: what each is, and the function that is lowered.

Where the MMapGame paper states or shows a number of buffers for a name, depth and length are chosen to come near it.
The networks behind its names are not published: everything else about them is an assumption.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from programs import attention, sequence, vision
from programs.layers import Step, adam, bf16, f32, i32, inference, momentum, sgd

_TABLES = (1_000_000, 500_000, 200_000, 50_000, 20_000, 10_000, 1_000, 100)


@dataclass(frozen=True)
class Traced:
    """A line about a program, and how to make its function."""

    summary: str
    step: Callable[[], Step]


def _pictures(batch: int, side: int = 224) -> tuple:
    return f32(batch, side, side, 3), i32(batch)


PROGRAMS: dict[str, Traced] = {
    "alexnet_train_batch_32": Traced(
        "AlexNet, a step of gradient descent, 32 pictures of 224 x 224",
        lambda: sgd(vision.classification(vision.alexnet), *_pictures(32)),
    ),
    "alphatensor": Traced(
        "network like AlphaTensor's for 9 x 9 x 9 tensors, 8 blocks of attention between grids of width 512, a step of"
        " Adam, batch 32",
        lambda: adam(attention.alphatensor(9, 512, 16, 8, 10_000), f32(32, 9, 9, 9), i32(32), f32(32)),
    ),
    "bert_base_inference": Traced(
        "BERT-base, forward, 32 sentences of 128 tokens",
        lambda: inference(attention.encoder(30_522, 768, 12, 12), i32(32, 128)),
    ),
    "bert_base_train_bf16": Traced(
        "transformer of 12 layers, width 768, a step of Adam with logits of 30,522 words, batch 16 of 128, bfloat16",
        lambda: adam(
            attention.language_model(30_522, 768, 12, 12, causal=False, narrow=True),
            i32(16, 128),
            i32(16, 128),
        ),
    ),
    "diffusion_unet_inference": Traced(
        "denoiser with attention at two of four levels, width 128, forward, 16 pictures of 64 x 64",
        lambda: inference(vision.diffusion_unet(128, (1, 2, 2, 4), 8), f32(16, 64, 64, 3), f32(16)),
    ),
    "dlrm_inference": Traced(
        "recommender of 18 tables, width 64, forward, batch 2,048",
        lambda: inference(
            attention.dlrm((*_TABLES, *_TABLES, *_TABLES[-2:]), 64), f32(2048, 13), i32(2048, 18)
        ),
    ),
    "dlrm_train": Traced(
        "recommender of 8 tables, width 64, a step of gradient descent, batch 2,048",
        lambda: sgd(attention.clicks(attention.dlrm(_TABLES, 64)), f32(2048, 13), i32(2048, 8), f32(2048)),
    ),
    "gpt_36_layers_train": Traced(
        "language model of 36 layers, width 768, a step of Adam with clipped gradients, 4 texts of 256 tokens",
        lambda: adam(attention.language_model(50_257, 768, 12, 36), i32(4, 256), i32(4, 256), clip=True),
    ),
    "gpt_decode_step": Traced(
        "language model of 12 layers, width 1,024, one token for 32 texts with caches of 256 tokens updated in place",
        lambda: inference(
            attention.decode_step(32_000, 1024, 16, 12),
            i32(32),
            i32(),
            [f32(32, 256, 16, 64)] * 24,
            donated=1,
        ),
    ),
    "inference_lstm": Traced(
        "LSTM of 2 layers, width 512, forward, 24 steps unrolled, batch 32",
        lambda: inference(sequence.lstm_classifier(512, 2), f32(32, 24, 512)),
    ),
    "inference_resnet": Traced(
        "ResNet-50, forward, 32 pictures of 224 x 224",
        lambda: inference(vision.resnet((3, 4, 6, 3), False), f32(32, 224, 224, 3)),
    ),
    "mixer_b16_train": Traced(
        "MLP-Mixer of 12 layers, width 768, a step of momentum, 32 pictures of 224 x 224",
        lambda: momentum(vision.classification(vision.mixer(12, 768, 16)), *_pictures(32)),
    ),
    "mlperf_nmt_1_shard_batch_64": Traced(
        "translator like GNMT, 4 + 4 LSTM layers of width 512, a step of gradient descent, 10 steps unrolled, batch 64",
        lambda: sgd(sequence.gnmt(32_000, 512, 4), i32(64, 10), i32(64, 10), i32(64, 10)),
    ),
    "mnasnet_b1_batch_128": Traced(
        "MnasNet-B1, forward, 128 pictures of 224 x 224",
        lambda: inference(vision.mnasnet_b1(False), f32(128, 224, 224, 3)),
    ),
    "resnet50_train": Traced(
        "ResNet-50, a step of momentum, 32 pictures of 224 x 224",
        lambda: momentum(vision.classification(vision.resnet((3, 4, 6, 3), True)), *_pictures(32)),
    ),
    "rnn_2": Traced(
        "language model of 2 LSTM layers of width 512 as loops of 32 steps, a step of gradient descent, batch 32",
        lambda: sgd(sequence.language_model_loops(10_000, 512, 2), i32(32, 32), i32(32, 32)),
    ),
    "rnn_3": Traced(
        "language model of 2 GRU layers of width 512, 12 steps unrolled, a step of gradient descent, batch 32",
        lambda: sgd(sequence.gru_model(10_000, 512, 2), i32(32, 12), i32(32, 12)),
    ),
    "rnn_6": Traced(
        "tagger of 3 bidirectional LSTM layers of width 256 as loops of 64 steps, a step of Adam, batch 32",
        lambda: adam(sequence.bidirectional_tagger(20_000, 256, 3, 64), i32(32, 64), i32(32, 64)),
    ),
    "rnn_7": Traced(
        "residual LSTM of 4 layers of width 512, 16 steps unrolled, a step of gradient descent, batch 64",
        lambda: sgd(sequence.residual_lstm(512, 4), f32(64, 16, 512), f32(64, 16, 80)),
    ),
    "tensor2tensor_transformer_bf16": Traced(
        "transformer of 8 + 8 layers, width 512, a step of Adam, batch 32 of 64 tokens, bfloat16",
        lambda: adam(attention.translator(32_000, 512, 8, 8), i32(32, 64), i32(32, 64), i32(32, 64)),
    ),
    "unet_train": Traced(
        "U-Net of 4 levels, width 32, a step of gradient descent, 8 pictures of 256 x 256",
        lambda: sgd(vision.classification(vision.unet(32, 4)), f32(8, 256, 256, 3), i32(8, 256, 256)),
    ),
    "vit_b16_inference_bf16": Traced(
        "ViT-B/16, forward, 32 pictures of 224 x 224, bfloat16",
        lambda: inference(vision.vit(12, 768, 12, 16), bf16(32, 224, 224, 3)),
    ),
    "vit_b16_train": Traced(
        "ViT-B/16, a step of Adam, 16 pictures of 224 x 224",
        lambda: adam(vision.classification(vision.vit(12, 768, 12, 16)), *_pictures(16)),
    ),
    "wavenet_coherent_batch32": Traced(
        "WaveNet of 4 stacks of 10 layers, width 64, a step of gradient descent, 32 pieces of 1,024 instants",
        lambda: sgd(vision.classification(sequence.wavenet(4, 10, 64, 256)), f32(32, 1024, 1), i32(32, 1024)),
    ),
}
