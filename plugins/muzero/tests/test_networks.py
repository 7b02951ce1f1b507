import numpy as np
import pytest
import torch

from egrl_muzero.networks import MuZeroConfig, MuZeroNet, Shapes
from workloads.errors import InputError

CONFIG = MuZeroConfig(width=8, hidden=12, row_width=4, map_channels=2, ids=4, bins=11, support=5.0)
NAMES = ("memory_map", "buffers", "buffer_ids")
SHAPES = Shapes((32, 16), (3, 5), 2, {"actions": 6, "global": 4}, 3, NAMES)


def seen(batch: int = 4) -> dict[str, torch.Tensor]:
    rng = np.random.default_rng(0)
    arrays = {
        "memory_map": rng.integers(0, 2, (batch, 32, 16)).astype(np.uint8),
        "buffers": rng.normal(size=(batch, 3, 5)).astype(np.float32),
        "buffer_ids": rng.integers(-1, 9, (batch, 3, 2)).astype(np.int32),
        "actions": rng.normal(size=(batch, 3, 2)).astype(np.float32),
        "global": rng.normal(size=(batch, 4)).astype(np.float32),
        "progress": np.linspace(0, 1, batch, dtype=np.float32),
    }
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def build(config: MuZeroConfig = CONFIG, shapes: Shapes = SHAPES) -> MuZeroNet:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return MuZeroNet(config, shapes)


def test_a_new_net_expects_nothing_and_prefers_next_to_nothing():
    net = build()
    out = net.read(net.step(net.represent(seen()), torch.tensor([0, 1, 2, 0])))
    assert out.shape == (4, 3 + 2 * 11)
    assert torch.softmax(out[:, :3], -1).sub(1 / 3).abs().max() < 0.02
    assert net.support.mean(out[:, 3:].view(4, 2, 11)).abs().max() < 0.1


@pytest.mark.parametrize("name", ["memory_map", "buffers", "buffer_ids", "actions", "global", "progress"])
def test_every_part_of_what_is_seen_changes_the_embedding(name):
    net, before = build(), seen()
    after = dict(before)
    after[name] = before[name].flip(0)
    assert not torch.allclose(net.represent(before)[0], net.represent(after)[0], atol=1e-6)


def test_rows_of_a_batch_do_not_see_each_other():
    net, whole = build(), seen()
    one = net.represent({name: array[1:2] for name, array in whole.items()})
    assert torch.allclose(net.represent(whole)[1:2], one, atol=1e-6)


def test_without_ids_names_are_not_seen():
    net, before = build(MuZeroConfig(width=8, hidden=8, row_width=4, map_channels=2, ids=0)), seen()
    after = {**before, "buffer_ids": before["buffer_ids"].flip(0)}
    assert torch.equal(net.represent(before), net.represent(after))


def test_a_game_that_shows_numbers_only_is_served():
    net = build(shapes=Shapes((0, 0), (0, 0), 0, {"coins": 1}, 2))
    given = {"coins": torch.tensor([[1], [2]]), "progress": torch.tensor([0.0, 0.5])}
    assert net.represent(given).shape == (2, 8)


def test_actions_lead_to_different_embeddings():
    net = build()
    root = net.represent(seen(1)).expand(3, -1)
    after = net.step(root, torch.arange(3))
    assert (after[0] - after[1]).abs().max() > 1e-3
    assert (after[1] - after[2]).abs().max() > 1e-3


def test_without_a_bin_for_zero_there_are_no_networks():
    with pytest.raises(InputError, match=r"^bins: expected an odd number, found 60"):
        MuZeroConfig(bins=60)
