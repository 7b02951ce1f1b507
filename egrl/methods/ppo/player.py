"""GraphSAGE policies of `ppo`: each decision's most probable choice, pass by pass, as a round's deployed mapping."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from egrl.core import typed_tables
from egrl.methods import policy_fit
from egrl.methods.ppo.sampling import NOTHING, in_stages
from egrl.methods.ppo.task import Task
from hwsim.problem import Mapping16, Problem
from policies.graph import prepare
from policies.graphsage import GraphSage, GraphSageConfig
from policies.masking import masked_log_probs
from policies.store import StoredPolicy, graphsage_weights
from policies.weight_vector import assign
from workloads.errors import InputError


def player(paths: Sequence[Path], stored: Sequence[StoredPolicy]) -> GraphSagePlayer:
    """InputError where a policy is not that of its network, or does not say how it is deployed."""
    return GraphSagePlayer(paths, stored)


class GraphSagePlayer:
    """S policies that are deployed one after the other."""

    def __init__(self, paths: Sequence[Path], stored: Sequence[StoredPolicy]) -> None:
        self._nets: list[GraphSage] = []
        self._ways: list[tuple[int, bool]] = []
        for path, policy in zip(paths, stored, strict=True):
            meta = policy.metadata
            network = typed_tables.build(GraphSageConfig, dict(meta["config"]), str(path))
            net = GraphSage(network, meta["features"], len(meta["heads"]))
            assign(net, graphsage_weights(policy, network, str(path)))
            self._nets.append(net.requires_grad_(False))
            passes, ordered = meta.get("passes"), meta.get("ordered")
            if type(passes) is not int or passes < 1 or type(ordered) is not bool:
                raise InputError(
                    f"{path}: expected passes of at least 1 and ordered true or false, found {passes!r} and {ordered!r}"
                )
            self._ways.append((passes, ordered))

    def greedy(self, problem: Problem) -> Mapping16:
        """int16 [S, N, H], as drawn: the problem mends what it cannot run."""
        torch.set_num_threads(1)
        seen = policy_fit.observation(problem)
        task = Task(problem, seen.x, prepare(seen.edge_index, len(seen.x)), torch.device("cpu"))
        found = []
        for net, (passes, ordered) in zip(self._nets, self._ways, strict=True):
            before = np.full((1, *problem.space.shape), NOTHING, np.int16)
            for _ in range(passes):
                earlier = torch.from_numpy(before.astype(np.int64))
                logits, _ = net(task.x, earlier, task.graph, task.counts, task.stages(before))
                choice = masked_log_probs(logits, task.counts).argmax(dim=-1).numpy()
                before = np.where(problem.space.live, choice, NOTHING).astype(np.int16)
            found.append(in_stages(before, task.pipeline if ordered else None)[0])
        return np.stack(found)
