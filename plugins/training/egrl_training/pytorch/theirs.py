"""What PyTorch's own partitioner keeps of a joint graph, as `torch.compile` does it by default.

Source: `torch/_functorch/partitioners.py` (`min_cut_rematerialization_partition`).
"""

from __future__ import annotations

import contextlib
import io

from torch import fx
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._guards import TracingContext, detect_fake_mode, tracing

from egrl_training.pytorch.joint import JointGraph


def kept_by_pytorch(joint: JointGraph) -> set[int]:
    """Positions in `TrainingStep.values` of the storages that it keeps for the backward pass."""
    graph = fx.Graph()
    returned = graph.graph_copy(joint.module.graph, {})
    graph.output(returned)
    given = list(graph.find_nodes(op="placeholder"))
    roles = [value.role for value in joint.step.values if value.role in ("parameter", "input")]
    values = [node.meta.get("val") for node in given]
    # draws that a checkpoint repeats get a state of their own, made in the mode that the graph was traced in
    traced = tracing(TracingContext(detect_fake_mode(values)))
    with contextlib.redirect_stdout(io.StringIO()), traced:
        forward, _ = min_cut_rematerialization_partition(
            fx.GraphModule(joint.module, graph),
            values,
            num_fwd_outputs=joint.forward_outputs,
            static_lifetime_input_indices=[n for n, role in enumerate(roles) if role == "parameter"],
        )
    (output,) = forward.graph.find_nodes(op="output")
    saved = {node.name for node in output.args[0][joint.forward_outputs :] if isinstance(node, fx.Node)}
    return {int(joint.step.owner[number]) for number in joint.positions(saved)}
