"""A mapping as node data of Google's Model Explorer: where each op's tensors lie, their bytes, and its time.

Source: the node data format of Model Explorer (google-ai-edge/model-explorer, node_data_builder.py): a file has
`results`, by the id of a node, with a `value` each, which may be a text with a colour of its own or a number; and a
`gradient` from the least to the largest number. A file is shown as one column, under its name; several are opened
together.

Nodes are called as in the file of the model. A number of an op stands at its first node, so that sums over layers are
right; its memories stand at all nodes that run in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from egrl.runs.past_run import PastRun
from hwsim.capabilities import HasFiles, explainer
from hwsim.explanation import OpTimes
from hwsim.problem import Problem
from workloads.serialize import from_json

COLOURS = ("#d55e00", "#e69f00", "#56b4e9", "#009e73", "#0072b2", "#cc79a7", "#f0e442", "#999999")
"""Colours of memories, the slowest first. Source: Okabe and Ito, Color Universal Design, 2008."""
GRADIENT = ({"stop": 0, "bgColor": "#ffffff"}, {"stop": 1, "bgColor": "#d55e00"})


def to_model_explorer(run: PastRun) -> dict[str, str]:
    """Files by name: a run's best mapping, as JSON that Model Explorer opens beside the model."""
    problem, mapping = run.problem, run.best_mapping()
    nodes = nodes_of(problem)
    files: dict[str, dict[str, Any]] = {}
    for h, head in enumerate(problem.space.heads):
        labels = problem.space.labels[h]
        placed = [(n, int(mapping[n, h])) for n in range(len(mapping)) if mapping[n, h] >= 0]
        where = {
            name: {"value": labels[choice], "bgColor": COLOURS[choice % len(COLOURS)]}
            for n, choice in placed
            for name in nodes[problem.space.nodes[n]]
        }
        sizes = {
            nodes[problem.space.nodes[n]][0]: {"value": int(problem.space.size_bytes[n, h])}
            for n, _ in placed
        }
        files[f"{head}.json"] = {"results": where, "showExpandedSummaryOnGroupNode": True}
        files[f"{head}_bytes.json"] = {"results": sizes, "gradient": GRADIENT}
    explain = explainer(problem, OpTimes)
    if explain is not None:
        times = {
            nodes[op.name][0]: {"value": round(op.duration_s * 1e6, 4)}
            for op in explain(mapping).ops
            if op.name in nodes
        }
        files["microseconds.json"] = {"results": times, "gradient": GRADIENT}
    return {name: json.dumps(document, indent=1) + "\n" for name, document in files.items()}


def nodes_of(problem: Problem) -> Mapping[str, tuple[str, ...]]:
    """For each node of a problem the nodes of the model's file that it stands for, its head first."""
    text = problem.files().get("workload.json") if isinstance(problem, HasFiles) else None
    joined: dict[str, tuple[str, ...]] = {}
    if isinstance(text, str) and '"kind": "workload"' in text[:200]:
        joined = {op.name: op.joined for op in from_json(text, problem.about.workload)}
    return {name: (name, *joined.get(name, ())) for name in problem.space.nodes}
