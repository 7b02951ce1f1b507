"""Break the code by hand, one place at a time, and say which test notices: `python tools/mutants.py [WORD…]`.

Each mutant is one piece of text replaced in a copy of the sources, on which the named tests of the gate run. WORDs
choose mutants by a part of their name. Exit code 1 if a mutant lives.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]


class Mutant(NamedTuple):
    """A name, the file, the text that is replaced (once in the file), its replacement, and the tests that run."""

    name: str
    file: str
    old: str
    new: str
    tests: str


MUTANTS = (
    Mutant(
        "what an op waited is not seen in a profile",
        "hwsim/nnpi/profile_features.py",
        "np.maximum(took - compute, 0.0), 0.0)",
        "np.maximum(took - took, 0.0), 0.0)",
        "tests/hwsim/nnpi/test_profile_features.py",
    ),
    Mutant(
        "the networks of `egrl` are linear rules",
        "egrl/methods/egrl/config.py",
        "NetworkConfig(depth=1, width=16, attention_heads=2)",
        'NetworkConfig("linear")',
        "tests/egrl/methods/egrl/test_composition.py",
    ),
    Mutant(
        "chromosomes are read without their temperatures",
        "population/policies.py",
        "noisy = prior + temperature[..., None]",
        "noisy = prior + 0 * temperature[..., None]",
        "tests/egrl/methods/egrl/test_composition.py",
    ),
    Mutant(
        "SAC learns from its own rollouts alone",
        "egrl/methods/egrl/ranking_sac.py",
        "np.ones(len(mapping), np.bool_) if self.config.shared",
        "proposals.source[ran] == SAC if self.config.shared",
        "tests/egrl/methods/egrl/test_composition.py",
    ),
    Mutant(
        "SAC's actor takes no steps",
        "egrl/methods/egrl/ranking_sac.py",
        "if self._rate:",
        "if False:",
        "tests/egrl/methods/egrl/test_composition.py",
    ),
    Mutant(
        "nothing migrates",
        "egrl/methods/egrl/ranking_sac.py",
        "if not self.config.migration:",
        "if True:",
        "tests/egrl/methods/egrl/test_composition.py",
    ),
    Mutant(
        "no profile model takes part",
        "egrl/methods/named.py",
        'if settings.use != "off" and learnable(problem):',
        'if settings.use == "on" and learnable(problem):',
        "tests/egrl/methods/egrl/test_composition.py",
    ),
    Mutant(
        "the paper's preset leaves a setting to the package",
        "egrl/methods/egrl/as_printed.toml",
        "crossover_prob = 0.3\n",
        "",
        "tests/egrl/methods/egrl/test_composition.py",
    ),
    Mutant(
        "the busiest link is left out of what is annealed on modules",
        "hwsim/mcm/family/improve.py",
        " + (link_s[c] / most) ** POWER",
        "",
        "tests/hwsim/mcm/test_terms.py",
    ),
    Mutant(
        "a tensor passes one link too few in what loads hold",
        "hwsim/mcm/terms.py",
        "range(0 if tables.transfers else far)",
        "range(0 if tables.transfers else far - 1)",
        "tests/hwsim/mcm/test_terms.py",
    ),
    Mutant(
        "draws of terms are all the mean",
        "egrl/methods/profile_model/terms.py",
        "self.mean + self.spread * off",
        "self.mean + 0 * self.spread * off",
        "tests/egrl/methods/profile_model/test_terms.py",
    ),
    Mutant(
        "instructions that wait are believed as all others",
        "egrl/methods/profile_model/terms.py",
        "(off / noise) ** 2",
        "0 * off",
        "tests/egrl/methods/profile_model/test_terms.py",
    ),
    Mutant(
        "greedy games are played by the chip file's times",
        "hwsim/mmap/terms.py",
        "game = MmapGame(self.known(seconds), self.game.granule_bytes)",
        "game = self.game",
        "tests/hwsim/mmap/test_terms.py",
    ),
    Mutant(
        "open runs hold nothing",
        "plugins/training/egrl_training/pytorch/runs.py",
        "each.open * each.left_bytes",
        "0 * each.left_bytes",
        "plugins/training/tests/test_pytorch_graphs.py",
    ),
    Mutant(
        "the rectifier fills a memory to its last byte but one",
        "hwsim/nnpi/rectify.py",
        "live[m] + size > capacity[m]",
        "live[m] + size >= capacity[m]",
        "tests/hwsim/nnpi",
    ),
    Mutant(
        "the rectifier forgets that weights stay",
        "hwsim/nnpi/rectify.py",
        "pinned[m] += weight",
        "pinned[m] += 0",
        "tests/hwsim/nnpi",
    ),
    Mutant(
        "the worst are the elites",
        "population/generational.py",
        "elites = ranked[: self.config.elites]",
        "elites = ranked[-self.config.elites :]",
        "tests/population",
    ),
    Mutant(
        "the actor follows the larger critic",
        "egrl/methods/egrl/sac.py",
        "(self._x, self._graph, action)).amin(dim=0)",
        "(self._x, self._graph, action)).amax(dim=0)",
        "tests/egrl/methods/egrl/test_sac.py",
    ),
    Mutant(
        "the judge lets a memory hold one byte too many",
        "hwsim/nnpi/judge.py",
        "if demanded > capacity:",
        "if demanded > capacity + 1:",
        "tests/hwsim/nnpi",
    ),
    Mutant(
        "the archive takes results as they come",
        "egrl/core/flow.py",
        "self._measured.pop(len(archive))",
        "self._measured.pop(max(self._measured))",
        "tests/egrl/methods/test_conformance.py -k random",
    ),
    Mutant(
        "a resumed annealing draws from the start again",
        "egrl/methods/annealing.py",
        '            chain.rng.bit_generator.state = saved["rng"]\n',
        "",
        "tests/egrl/methods/test_conformance.py -k annealing",
    ),
    Mutant(
        "the noise of a row follows its place in the slice",
        "egrl/core/flow.py",
        "run_keys(self._context.seed, rows.tickets, EVALUATION)",
        "run_keys(self._context.seed, rows.tickets - rows.tickets[0], EVALUATION)",
        "tests/egrl/methods/test_conformance.py -k noisy",
    ),
    Mutant(
        "every worker draws its own noise",
        "egrl/measure/local.py",
        "    return attempted(_held[problem], mapping, key)",
        "    return attempted(_held[problem], mapping, key + np.uint64(threading.get_native_id()))",
        "tests/egrl/measure/test_local.py",
    ),
    Mutant(
        "the twin's evidence does not count the width of its predictions",
        "egrl/methods/twin/inference.py",
        "return -0.5 * fit - size - 0.5 * len(target)",
        "return -0.5 * fit - 0.5 * len(target)",
        "tests/egrl/methods/test_twin.py",
    ),
    Mutant(
        "a return is not discounted on its way up the tree",
        "plugins/muzero/egrl_muzero/mcts/tree.py",
        "        value = reward + discount * value",
        "        value = reward + value",
        "plugins/muzero/tests/mcts",
    ),
    Mutant(
        "PPO takes the larger of ratio and clipped ratio",
        "egrl/methods/ppo/learner.py",
        "torch.minimum(ratio * advantage, clipped * advantage)",
        "torch.maximum(ratio * advantage, clipped * advantage)",
        "tests/egrl/methods/ppo",
    ),
    Mutant(
        "PPO does not clip",
        "egrl/methods/ppo/learner.py",
        "ratio.clamp(1 - config.clip, 1 + config.clip)",
        "ratio",
        "tests/egrl/methods/ppo",
    ),
    Mutant(
        "a node forgets the memory of those that became a part of it",
        "plugins/shard/egrl_shard/exact/draft.py",
        "[self.usage[v][:, of] for v, of in chosen.items()]",
        "[self.usage[v][:, of] * (v == root) for v, of in chosen.items()]",
        "plugins/shard/tests",
    ),
    Mutant(
        "a region forgets the limit",
        "plugins/shard/egrl_shard/exact/regions.py",
        "if cost <= least and (profile(graph, choice) <= graph.room).all():",
        "if cost <= least:",
        "plugins/shard/tests",
    ),
    Mutant(
        "crossover forgets the limit",
        "plugins/shard/egrl_shard/exact/crossover.py",
        "if gain < least and (profile(graph, choice) <= graph.room).all():",
        "if gain < least:",
        "plugins/shard/tests",
    ),
    Mutant(
        "a graph leaves no room for the gradients of later ones",
        "plugins/training/egrl_training/pytorch/limit.py",
        "return sum(each.nbytes for each in self.resident.unread(device).values() if each.requires_grad)",
        "return 0 * len(self.resident.unread(device))",
        "plugins/training/tests/test_pytorch_graphs.py",
    ),
    Mutant(
        "what reads a changed tensor may run again",
        "plugins/training/egrl_training/pytorch/joint.py",
        "returns_the_same(node) and not reads(node, self._unsteady)",
        "returns_the_same(node)",
        "plugins/training/tests/test_pytorch_kinds.py",
    ),
    Mutant(
        "a change in place does not wait for its readers",
        "plugins/training/egrl_training/pytorch/writes.py",
        "(each for owned in written(node) for each in readers(owned))",
        "(each for owned in () for each in readers(owned))",
        "plugins/training/tests/test_pytorch_kinds.py",
    ),
    Mutant(
        "the judge of graphs forgets what changes in place",
        "plugins/training/egrl_training/pytorch/judge.py",
        'self.memory[shown.storage] = self.terms("write", before, shown.path, made, number)',
        "pass",
        "plugins/training/tests/test_pytorch_judge.py",
    ),
    Mutant(
        "machine code ignores the kernels that it calls",
        "hwsim/kernel_cache.py",
        '        yield f"{name}: {digest}"',
        '        yield f"{name}"',
        "tests/hwsim/test_kernel_cache.py",
    ),
    Mutant(
        "any answer of a board will do",
        "egrl/measure/board.py",
        'or document["id"] != number:',
        "or False:",
        "tests/egrl/measure/test_board.py",
    ),
)


def copy_to(folder: Path) -> None:
    """What git knows of, as it stands, and new files."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    for name in listed.stdout.split("\0"):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def caught_by(mutant: Mutant, folder: Path) -> str:
    """The first test that fails; "" if none does. ValueError if the text does not stand once in the file."""
    file = folder / mutant.file
    text = file.read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        raise ValueError(f"{mutant.file}: expected once {mutant.old!r}, found {text.count(mutant.old)} times")
    file.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    argv = [sys.executable, "-m", "pytest", "-x", "--quiet", "-p", "no:cacheprovider", *mutant.tests.split()]
    try:
        done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    finally:
        file.write_text(text, encoding="utf-8")
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{mutant.name}: pytest ended with {done.returncode}\n{done.stdout[-2000:]}")
    failed = re.search(r"^(?:FAILED|ERROR) ([^\s\[]+)", done.stdout, flags=re.MULTILINE)
    return failed[1] if failed else ""


def main(words: Sequence[str]) -> int:
    """Try the mutants whose name has one of the words, or all. 1 if one lives."""
    lives = 0
    with tempfile.TemporaryDirectory() as name:
        copy_to(Path(name))
        for mutant in MUTANTS:
            if not words or any(word in mutant.name for word in words):
                test = caught_by(mutant, Path(name))
                lives += not test
                print(f"| {mutant.name} | {f'`{test}`' if test else 'no test'} |", flush=True)
    return 1 if lives else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
