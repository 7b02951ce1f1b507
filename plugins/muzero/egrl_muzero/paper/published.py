"""Numbers of the MMapGame paper, beside which `egrl reproduce mmap` puts ours.

Source: *Optimizing Memory Mapping Using Deep Reinforcement Learning*, Tables 2 to 5.
"""

from __future__ import annotations

TABLE2: dict[str, dict[str, float]] = {
    "alexnet_train_batch_32": {"buffers": 300, "muzero": 0.5834, "es": 0.5426, "random": 0.4100},
    "wavenet_coherent_batch32": {"buffers": 3020, "muzero": 0.7099, "es": 0.7004, "random": 0.4804},
    "alphatensor": {"buffers": 9084, "muzero": 0.7680, "es": 0.5357, "random": 0.2481},
    "tensor2tensor_transformer_bf16": {"buffers": 9888, "muzero": 0.7002, "es": 0.6263, "random": 0.3227},
}
"""Program -> final rewards of Table 2."""

TABLE3 = {
    "agent": {"mean": 1.0059, "max": 1.8787, "min": 0.4853, "improved": 33},
    "prod": {"mean": 1.0405, "max": 1.8787, "min": 1.0, "improved": 33},
}
"""Over 60 programs."""
TABLE3_PROGRAMS = 60
TABLE4 = {
    "inference_lstm": 1.8787,
    "wavenet_coherent_batch32": 1.3335,
    "alexnet_train_batch_32": 1.1709,
    "mnasnet_b1_batch_128": 1.0960,
    "inference_resnet": 1.0893,
    "alphatensor": 1.0578,
    "rnn_2": 0.9343,
    "tensor2tensor_transformer": 0.9125,
    "rnn_3": 0.8541,
    "mlperf_nmt_1_shard_batch_64": 0.7892,
    "rnn_6": 0.5482,
    "rnn_7": 0.4853,
}
"""Program -> speedup of the agent."""
TABLE5 = {
    "inference_lstm": -0.9957,
    "wavenet_coherent_batch32": -0.9994,
    "alexnet_train_batch_32": -0.9581,
    "rnn_7": -0.0774,
    "rnn_6": 0.0299,
    "mlperf_nmt_1_shard_batch_64": -0.5422,
}
"""Program -> correlation of reward and latency."""
