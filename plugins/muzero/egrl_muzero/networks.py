"""MuZero's networks for games that show themselves as named arrays: representation, dynamics, prediction.

Sources: MuZero (Schrittwieser et al., Nature 588, 2020), section 2 and appendix F; the MMapGame paper, section 4.3.1
and figure 4: a ResNet over the map; embeddings and MLPs over buffers, profiles, actions and globals; MLPs for policy,
value, reward and dynamics.

`Shapes` says what is seen of a game: which part is an image, which a list of rows, which holds numbers that name
things. The networks know no chip.

Deviations:
- Embeddings are normalised by layers (MuZero scales them to 0..1), dynamics are residual.
- Policy, value and reward share one hidden layer; the reward is read from the embedding that follows.
- The place in the program enters as sines and cosines of `progress`, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
from annotated_types import Ge, Gt, Le
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import Doc

from egrl_muzero.categorical import Support
from workloads.errors import InputError


@dataclass(frozen=True)
class MuZeroConfig:
    """Shape of the networks."""

    width: Annotated[int, Ge(4), Le(8192), Doc("numbers in an embedding")] = 256
    hidden: Annotated[int, Ge(4), Le(8192), Doc("numbers in the hidden layers of dynamics and heads")] = 256
    blocks: Annotated[int, Ge(0), Le(64), Doc("residual blocks that make the embedding")] = 1
    row_width: Annotated[int, Ge(1), Le(1024), Doc("numbers that a row of a list (a buffer) becomes")] = 32
    map_channels: Annotated[
        int,
        Ge(1),
        Le(512),
        Doc("channels of the first convolution over the map; the further ones have twice as many"),
    ] = 8
    map_blocks: Annotated[int, Ge(0), Le(64), Doc("residual blocks over the smallest map")] = 1
    ids: Annotated[
        int,
        Ge(0),
        Le(2**20),
        Doc(
            "rows of the table of names (tensors, groups); 0: names are not seen, so that other"
            " programs can be served"
        ),
    ] = 512
    id_width: Annotated[
        int,
        Ge(1),
        Le(256),
        Doc("numbers in a row of that table"),
    ] = 8
    frequencies: Annotated[
        int, Ge(0), Le(16), Doc("pairs of sine and cosine of the place in the program")
    ] = 8
    bins: Annotated[int, Ge(3), Le(4001), Doc("bins that stand for values and rewards, an odd number")] = 61
    support: Annotated[
        float, Gt(0), Le(1e6), Doc("largest value or reward that the bins reach, after the transform")
    ] = 15.0

    def __post_init__(self) -> None:
        """Raises InputError where no bin stands for 0."""
        if self.bins % 2 == 0:
            raise InputError(f"bins: expected an odd number, found {self.bins}")


@dataclass(frozen=True)
class Shapes:
    """Shapes of what is seen, without the axis of the batch.

    Attributes:
        map: (height, width) of the image; (0, 0) = there is none.
        rows: (rows, columns) of the list of things, the first of which is what is decided on; (0, 0) = there is none.
        names: how many numbers name things in each row; 0 = there are none.
        flat: name -> length of everything else that is read as numbers.
        actions: A.
        called: what the arrays of image, rows and names are called in what is seen.
    """

    map: tuple[int, int]
    rows: tuple[int, int]
    names: int
    flat: Mapping[str, int]
    actions: int
    called: tuple[str, str, str] = ("image", "rows", "names")


class _Residual(nn.Module):
    """x + MLP(norm(x))."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.first, self.second = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.second(F.relu(self.first(self.norm(x))))


class _MapBlock(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x + self.second(F.relu(self.first(x))))


class _Map(nn.Module):
    """[B, H, W] -> [B, width]: strided convolutions down to 8 cells or fewer a side, residual blocks, a linear map."""

    def __init__(self, size: tuple[int, int], config: MuZeroConfig) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels, (height, width) = 1, size
        while max(height, width) > 8 or not layers:
            out = config.map_channels if channels == 1 else 2 * config.map_channels
            layers += [nn.Conv2d(channels, out, 3, stride=2, padding=1), nn.ReLU()]
            channels, height, width = out, -(-height // 2), -(-width // 2)
        layers += [_MapBlock(channels) for _ in range(config.map_blocks)]
        self.layers = nn.Sequential(*layers)
        self.out = nn.Linear(channels * height * width, config.width)

    def forward(self, image: Tensor) -> Tensor:
        out: Tensor = self.out(self.layers(image.unsqueeze(1).float()).flatten(1))
        return out


class MuZeroNet(nn.Module):
    """The three networks (equations 1 to 3 of the MMapGame paper).

    Attributes:
        support: of values and rewards.
    """

    def __init__(self, config: MuZeroConfig, shapes: Shapes) -> None:
        super().__init__()
        self.config, self.shapes = config, shapes
        width, hidden = config.width, config.hidden
        rows, columns = shapes.rows
        named = rows > 0 and shapes.names > 0 and config.ids > 0
        names = shapes.names * config.id_width if named else 0
        self.support = Support(config.bins, config.support)
        self.map = _Map(shapes.map, config) if shapes.map != (0, 0) else None
        self.name = nn.Embedding(config.ids + 1, config.id_width) if named else None
        self.row = nn.Linear(columns + names, config.row_width) if rows else None
        flat = sum(shapes.flat.values()) + 2 * config.frequencies
        self.together = nn.Linear(rows * config.row_width + columns + names + flat, width)
        self.blocks = nn.ModuleList(_Residual(width, hidden) for _ in range(config.blocks))
        self.norm = nn.LayerNorm(width)
        self.act = nn.Linear(width, hidden)
        self.action = nn.Embedding(shapes.actions, hidden)
        self.after = nn.Linear(hidden, width)
        self.after_norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, hidden)
        self.heads = nn.Linear(hidden, shapes.actions + 2 * config.bins)
        with torch.no_grad():  # values and rewards of 0, equal probabilities, to begin with
            self.heads.weight.mul_(0.01)
            self.heads.bias.zero_()

    def represent(self, seen: Mapping[str, Tensor]) -> Tensor:
        """What is seen of B games -> embeddings [B, width]; `progress` is float32 [B], from 0 to 1."""
        image, things, names = self.shapes.called
        progress = seen["progress"].unsqueeze(1)
        parts = [seen[name].float().flatten(1) for name in self.shapes.flat]
        if self.row is not None:
            # [B, rows, columns]; the first row, what is decided on, is read a second time as it stands.
            rows = seen[things]
            if self.name is not None:
                ids = seen[names].long()
                # 0 stands for "no name"; large numbers share rows of the table.
                named = self.name(torch.where(ids < 0, 0, 1 + ids % self.config.ids)).flatten(2)
                rows = torch.cat([rows, named], dim=-1)
            parts += [F.relu(self.row(rows)).flatten(1), rows[:, 0]]
        if self.config.frequencies:
            angle = progress * (
                math.pi * 2.0 ** torch.arange(self.config.frequencies, device=progress.device)
            )
            parts += [angle.sin(), angle.cos()]
        x = self.together(torch.cat(parts, dim=1))
        x = F.relu(x if self.map is None else x + self.map(seen[image]))
        for block in self.blocks:
            x = block(x)
        out: Tensor = self.norm(x)
        return out

    def step(self, embedding: Tensor, action: Tensor) -> Tensor:
        """Embeddings [B, width] and actions int64 [B] -> the embeddings that follow."""
        hidden = F.relu(self.act(embedding) + self.action(action))
        out: Tensor = self.after_norm(embedding + self.after(hidden))
        return out

    def read(self, embedding: Tensor) -> Tensor:
        """Policy, value and reward side by side: logits [B, A + bins + bins]; the reward is that of coming here."""
        out: Tensor = self.heads(F.relu(self.head(embedding)))
        return out


def tensors(seen: Mapping[str, NDArray[Any]], device: torch.device) -> dict[str, Tensor]:
    """What is seen, as `MuZeroNet.represent` takes it: arrays as tensors on a device."""
    return {name: torch.from_numpy(np.ascontiguousarray(array)).to(device) for name, array in seen.items()}
