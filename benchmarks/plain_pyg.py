"""The learner's networks and one SAC update as one writes them with PyTorch Geometric at first: what `learning.py` is
measured against.

A minibatch is a `Batch` of as many copies of the graph; every network is evaluated by itself; pooling, the second
power of the adjacency and the convolutions are the library's. Shapes, losses and step sizes are those of
`egrl.methods.egrl.sac`, `policies.graph_unet` and `policies.critic`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GATv2Conv, GCNConv, TopKPooling, global_mean_pool
from torch_geometric.utils import add_self_loops, remove_self_loops, to_torch_csr_tensor, to_undirected
from torch_geometric.utils.sparse import to_edge_index

from egrl.methods.egrl.config import SacConfig
from egrl.methods.egrl.sac import CLIP_NORM, NOISE_CLIP
from policies.critic import CriticConfig
from policies.network import NetworkConfig


def second_power(edge_index: Tensor, nodes: int) -> Tensor:
    """Edges of A^2 with self loops, as `torch_geometric.nn.GraphUNet` augments its pooled graphs."""
    edge_index, _ = remove_self_loops(edge_index)
    edge_index, _ = add_self_loops(edge_index, num_nodes=nodes)
    adjacency = to_torch_csr_tensor(edge_index, size=(nodes, nodes))
    squared, _ = to_edge_index(adjacency @ adjacency)
    return squared


class PlainActor(nn.Module):
    """Graph U-Net of attention layers."""

    def __init__(self, config: NetworkConfig, features: int, outputs: int) -> None:
        super().__init__()
        width, heads = config.width, config.attention_heads

        def attention() -> GATv2Conv:
            return GATv2Conv(width, width // heads, heads=heads)

        self.encode = nn.Linear(features, width)
        self.down = nn.ModuleList(attention() for _ in range(config.depth + 1))
        self.down_norm = nn.ModuleList(nn.LayerNorm(width) for _ in range(config.depth + 1))
        self.pools = nn.ModuleList(TopKPooling(width, config.pool_ratio) for _ in range(config.depth))
        self.up = nn.ModuleList(attention() for _ in range(config.depth))
        self.up_norm = nn.ModuleList(nn.LayerNorm(width) for _ in range(config.depth))
        self.last_norm = nn.LayerNorm(width)
        self.decide = nn.Linear(width, outputs)

    def forward(self, batch: Batch) -> Tensor:
        """Logits [nodes of all copies, outputs]."""
        edges, member = batch.edge_index, batch.batch
        h = self.encode(batch.x)
        h = h + F.elu(self.down_norm[0](self.down[0](h, edges)))
        path: list[tuple[Tensor, Tensor, Tensor]] = []
        for pool, layer, norm in zip(self.pools, self.down[1:], self.down_norm[1:], strict=True):
            skip, outer = h, edges
            edges = second_power(edges, len(h))
            h, edges, _, member, chosen, _ = pool(h, edges, batch=member)
            path.append((skip, outer, chosen))
            h = h + F.elu(norm(layer(h, edges)))
        for (skip, outer, chosen), layer, norm in zip(reversed(path), self.up, self.up_norm, strict=True):
            h = skip.index_add(0, chosen, h)
            h = h + F.elu(norm(layer(h, outer)))
        logits: Tensor = self.decide(self.last_norm(h))
        return logits


class PlainCritic(nn.Module):
    """One Q network."""

    def __init__(self, config: CriticConfig, features: int, action: int) -> None:
        super().__init__()
        self.entry = nn.Linear(features + action, config.width)
        self.layers = nn.ModuleList(GCNConv(config.width, config.width) for _ in range(config.layers))
        self.hidden, self.value = nn.Linear(config.width, config.width), nn.Linear(config.width, 1)

    def forward(self, batch: Batch, action: Tensor) -> Tensor:
        """Values [copies] of actions [nodes of all copies, action]."""
        h = torch.relu(self.entry(torch.cat([batch.x, action], dim=-1)))
        for layer in self.layers:
            h = h + torch.relu(layer(h, batch.edge_index))
        value: Tensor = self.value(torch.relu(self.hidden(global_mean_pool(h, batch.batch)))).squeeze(-1)
        return value


class PlainSac:
    """Actor, two critics and optimizers."""

    def __init__(
        self,
        actor: NetworkConfig,
        critic: CriticConfig,
        config: SacConfig,
        features: int,
        heads: int,
        choices: int,
        device: str,
    ) -> None:
        self.config, self.heads, self.choices = config, heads, choices
        self.actor = PlainActor(actor, features, heads * choices).to(device)
        self.critics = [PlainCritic(critic, features, heads * choices).to(device) for _ in range(2)]
        self.actor_adam = torch.optim.Adam(self.actor.parameters(), lr=config.actor_lr)
        self.critic_adam = [torch.optim.Adam(q.parameters(), lr=config.critic_lr) for q in self.critics]

    def update(self, x: Tensor, edges: Tensor, action: Tensor, reward: Tensor) -> tuple[float, float]:
        """One gradient step on B one-step episodes: x [N, F], actions [B, N, H]. Returns both losses."""
        config = self.config
        graph = Data(x=x, edge_index=to_undirected(edges))
        batch = Batch.from_data_list([graph] * len(action))
        one_hot = F.one_hot(action, self.choices).float()
        noise = torch.randn_like(one_hot).mul(config.noise_sigma).clamp(-NOISE_CLIP, NOISE_CLIP)
        noisy = (one_hot + noise).flatten(2).flatten(0, 1)
        target = reward * config.reward_scale
        critic_loss = 0.0
        for critic, optimizer in zip(self.critics, self.critic_adam, strict=True):
            loss = F.mse_loss(critic(batch, noisy), target)
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            nn.utils.clip_grad_norm_(critic.parameters(), CLIP_NORM)
            optimizer.step()
            critic_loss += float(loss.detach())

        log_probs = self.actor(batch).view(-1, self.heads, self.choices).log_softmax(-1)
        policy = log_probs.exp()
        values = torch.stack([critic(batch, policy.flatten(1)) for critic in self.critics])
        entropy = -(policy * log_probs).sum(-1).mean()
        actor_loss = -values.amin(dim=0).mean() - config.alpha * entropy
        self.actor_adam.zero_grad()
        torch.autograd.backward(actor_loss)
        nn.utils.clip_grad_norm_(self.actor.parameters(), CLIP_NORM)
        self.actor_adam.step()
        return critic_loss, float(actor_loss.detach())
