"""A plan as a policy of selective checkpointing, for those who do not compile.

Source: `torch.utils.checkpoint.create_selective_checkpoint_contexts`. What eager mode loses beside a compiled step: all
of a checkpointed region is computed again at once, when its first value is needed, so that the peak is higher than
planned; and what the region's own inputs are is kept in any case.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

from egrl_training.pytorch.plan import Plan
from egrl_training.steps.step import OWNER, TrainingStep
from workloads.errors import InputError


def checkpoint_contexts(step: TrainingStep, plan: Plan) -> Callable[[], Any]:
    """The `context_fn` of `torch.utils.checkpoint.checkpoint` that keeps what a plan keeps.

    The region must be what the step was captured of, with the backend "aot_eager".

    Raises:
        InputError: the plan is of another step or keeps values on the host; or when the region runs, it has more ops of
            a kind than the step.
    """
    plan.checked(step.graph)
    if plan.offload:
        raise InputError(
            f"the plan of {plan.name}: offload: expected nothing on the host, found {len(plan.offload)} values:"
            " checkpoints only keep or compute again"
        )
    keep = set(plan.keep)
    wanted: dict[str, list[bool]] = {}
    for op in step.ops:
        makes = [number for number in op.outputs if step.values[number].view_of == OWNER]
        if op.phase == "forward" and makes:
            kept = not op.recomputable or any(step.values[number].name in keep for number in makes)
            wanted.setdefault(op.kind, []).append(kept)
    contexts: Any = create_selective_checkpoint_contexts
    return lambda: contexts(_Policy(wanted))


class _Policy:
    """Says of each op in turn whether what it makes is kept; counts the ops of each kind, in both passes by itself."""

    def __init__(self, wanted: dict[str, list[bool]]) -> None:
        self._wanted = wanted
        self._seen: dict[bool, Counter[str]] = {False: Counter(), True: Counter()}

    def __call__(self, context: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        kept = self._wanted.get(str(op))
        if kept is None:
            return CheckpointPolicy.PREFER_RECOMPUTE
        seen = self._seen[context.is_recompute]
        number = seen[str(op)]
        seen[str(op)] += 1
        if number >= len(kept):
            raise InputError(
                f"checkpoint: expected {len(kept)} ops {op} in the region, as in the step, found more"
            )
        return CheckpointPolicy.MUST_SAVE if kept[number] else CheckpointPolicy.PREFER_RECOMPUTE
