"""Your ExecuTorch model in two memories: plan it, run it, and say what that saves.

pip install "./plugins/edge[executorch]"
python plugins/edge/example/plan.py
"""

import sys

import torch
from torch import nn

try:
    from executorch.exir import ExecutorchBackendConfig, to_edge
    from executorch.exir.banked_memory_planning import Bank, TargetMemoryMap
    from executorch.exir.passes import MemoryPlanningPass
    from executorch.runtime import Runtime
except ModuleNotFoundError as missing:
    sys.exit(f'plan.py: {missing}: pip install "./plugins/edge[executorch]"')

from egrl_edge.executorch import planner

torch.manual_seed(0)


class Net(nn.Module):
    """Two large tensors that are read once, small ones that are read again and again."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 16, 3, padding=1), nn.Linear(64, 10)
        self.layers = nn.ModuleList(nn.Conv2d(16, 16, 3, padding=1) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = skip = torch.relu(self.first(x))
        for layer in self.layers:
            x = x + torch.sigmoid(layer(x))
        return self.last(torch.nn.functional.avg_pool2d(x + skip, 16).flatten(1))


model, image = Net().eval().requires_grad_(False), torch.randn(1, 3, 32, 32)
banks = TargetMemoryMap([Bank("sram", 128 * 1024, mem_id=1), Bank("dram", 256 * 1024, mem_id=2)])
algorithm = planner(banks, "edge", seconds=10)
config = ExecutorchBackendConfig(memory_planning_pass=MemoryPlanningPass(memory_planning_algo=algorithm))
program = to_edge(torch.export.export(model, (image,))).to_executorch(config)

plan = algorithm.plans[-1]
for bank in plan.banks:
    held = sum(row.mem_id == bank.mem_id for row in plan.rows)
    print(f"{bank.name}: {plan.used_bytes(bank)} of {bank.size_bytes} bytes, {held} tensors")
for name, cost in (("egrl", plan.cost), ("BankedGreedy", plan.greedy)):
    if cost is not None:
        moved = cost.moved_bytes["dram"]
        print(f"{name}: {cost.seconds * 1e6:.1f} us a run by the model, {moved} bytes through dram")
print(f"no placement takes less than {plan.bound_s * 1e6:.1f} us")

outputs = Runtime.get().load_program(program.buffer).load_method("forward").execute((image,))
print("outputs as in PyTorch:", torch.allclose(outputs[0], model(image), atol=1e-5))
