"""A placement at once: tensors that are read most a byte and a step go to the fastest memory that has room.

egrl suite run --track one-shot --method one_shot:place --split test -o results.json        (in this folder)
python -m egrl_suite program one_shot.py                                      (as a program that may be evolved)
"""

import numpy as np

from egrl_suite.judge import Judge


def place(network, chip):
    """A table [N, 2]: the memory of each op's weight and activation, 0 the slowest, -1 where there is none."""
    judge = Judge(network, chip)
    free = np.repeat(judge.capacity[:, None], len(judge.ops), axis=1)
    mapping = np.where(judge.sizes > 0, 0, -1)
    readers = np.bincount([source for edges in judge.inputs for source, _ in edges], minlength=len(judge.ops))
    traffic = np.stack([np.array(judge.weight_read), judge.sizes[:, 1] * (1 + readers)], axis=1)
    worth = traffic / np.maximum(judge.sizes, 1) / (judge.last - judge.first + 1)
    for tensor in np.argsort(-worth, axis=None):
        op, head = divmod(int(tensor), 2)
        span, size = slice(judge.first[op, head], judge.last[op, head] + 1), judge.sizes[op, head]
        for memory in range(len(judge.names) - 1, 0, -1):
            if size and free[memory, span].min() >= size:
                free[memory, span] -= size
                mapping[op, head] = memory
                break
    return mapping
