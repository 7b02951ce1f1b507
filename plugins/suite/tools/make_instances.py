"""Make the suite's instances: networks, chips and boards as files, with default, best known and bound in a manifest.

    python plugins/suite/tools/make_instances.py [--seconds 60] [--only KIND] [--version N]

Needs egrl. Boards are drawn from seeds. A candidate on which less than 2 % can be gained is left out. What was solved
before stays as it is where network and chip are the same, so that the work can be taken up again.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import tomllib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import tomli_w

import egrl
from egrl_suite.judge import Judge
from egrl_suite.library import DATA, KINDS, packed
from egrl_suite.modules import ModuleJudge
from egrl_suite.programs import ProgramJudge
from egrl_suite.through_egrl import program_bound
from hwsim.mcm.config import McmConfig
from hwsim.mcm.cost import tensors_of
from hwsim.mcm.package import load_package
from hwsim.mcm.problem import McmProblem
from hwsim.mmap.chip import load_chip as load_program_chip
from hwsim.mmap.problem import MmapProblem
from hwsim.nnpi.annealing import anneal
from hwsim.nnpi.chip import chip_around, chip_file, load_chip, parse_chip
from hwsim.nnpi.problem import NnpiProblem
from workloads.load import load, load_program
from workloads.serialize import from_json, to_json
from workloads.zoo.mcm87 import family_of

LEAST = 0.02
"""Smallest gain of an instance, as a logarithm."""
WIDEST = 0.2
"""How far above the bound the best known may be, as a share."""
OFF, OWN, TRAFFIC = 0.35, 0.2, 0.15
"""Of a board: by how much constants are off at most; standard deviations of ops' times and of kinds' traffic."""
ANNEALED = 1_000_000
"""Steps of the annealing from what the solver found, less for large networks."""
DRAWN = {"drawn-a": 100, "drawn-c": 112}
"""Chips around `nnpi`: name and seed."""

PLACED = {
    "train": "resnet101@nnpi resnet152@drawn-a wide_resnet50_2@nnpi darknet53@nnpi yolov3@drawn-a darknet53@edge"
    " two_tower@nnpi dlrm_large@nnpi dlrm_large@edge",
    "validation": "unet@nnpi unet@drawn-a densenet201@edge mobilenet_v3_large@edge",
    "test": "bert@nnpi bert@npu gpt2@nnpi gpt2@quad vgg16@nnpi vgg16@tpuv4i vgg19_tiled@quad deep_speech_2@nnpi"
    " crnn@npu transducer@quad lstm_lm_small@nnpi lstm_lm_small@quad seq2seq_deep@nnpi character_lstm@nnpi"
    " gru_lm@quad pix2pix_narrow@nnpi dcgan@tpuv4i mixer_b16@nnpi mixer_b16@npu inception_v3@drawn-c googlenet@npu",
}
"""Families and, but for `nnpi`, chips of the test split are in no other."""
MODULES = {
    "train": "regnet_x@24 darknet53@36 two_tower@8",
    "validation": "deeplab_v3@16 mobilenet_v2@16 efficientnet_b0@36",
    "test": "quartznet15x5@24 mixer_s16@24 conv_lstm@12",
}
PROGRAMS = {
    "train": "resnet:inference_resnet ranking:dlrm_train",
    "validation": "mobile:mnasnet_b1_batch_128 segmentation:unet_train",
    "test": "transformer:bert_base_inference transformer:vit_b16_inference_bf16 transformer:gpt_decode_step"
    " language:rnn_2 language:rnn_6 plain:alexnet_train_batch_32",
}
"""Family and program; all on `tpuv4i`."""
REVISED = 60
"""Evaluations of `revise`, 200,000 replayed buffers each, for the best known play."""
BOARDS = {
    "train": "resnet101@nnpi darknet53@nnpi dlrm_large@nnpi",
    "validation": "unet@nnpi mobilenet_v3_large@edge",
    "test": "bert@nnpi gpt2@quad vgg19_tiled@nnpi transducer@nnpi crnn@npu lstm_lm_small@nnpi pix2pix_narrow@nnpi"
    " mixer_b16@nnpi googlenet@npu",
}
QUICK = (
    "vgg16@nnpi",
    "crnn@npu",
    "dcgan@tpuv4i",
    "pix2pix_narrow@nnpi",
    "mcm:mixer_s16@24",
    "board:vgg19_tiled@nnpi",
)


class Solved(NamedTuple):
    """Costs in seconds, the bound's proof, and the default's placement."""

    default_cost: float
    best_cost: float
    bound: float
    proof: str
    default: str


def chip_named(name: str) -> Any:
    """A chip that ships with egrl, or is drawn around `nnpi`."""
    if name in DRAWN:
        return chip_around(load_chip("nnpi"), np.random.default_rng(DRAWN[name]), name)
    return load_chip(name)


def plain(network: Any, name: str) -> str:
    """The workload file with numbers as names of ops."""
    number = {op.name: f"op{i}" for i, op in enumerate(network)}
    ops = tuple(
        replace(
            op,
            name=number[op.name],
            inputs=tuple(replace(edge, source=number[edge.source]) for edge in op.inputs),
            joined=(),
        )
        for op in network
    )
    return to_json(replace(network, name=name, ops=ops, source="", remarks=()))


def whole(chip: Any) -> str:
    """A chip file that leaves nothing to defaults, but for pins and factors."""
    table = tomllib.loads(chip_file(chip))
    for name in ("effects", "waiting"):
        table[name] = dict(vars(getattr(chip, name)))
    table["effects"]["noise"] = False
    return tomli_w.dumps(table)


def drawn_board(network: str, chip: str, seed: int) -> tuple[str, str]:
    """The network and chip that a board truly is: constants off, effects that the chip file lacks, each op off."""
    rng, table = np.random.default_rng(seed), tomllib.loads(chip)
    rates = [memory["bandwidth_Bps"] * np.exp(rng.uniform(-OFF, OFF)) for memory in table["memories"]]
    for memory, rate in zip(table["memories"], sorted(rates), strict=True):
        memory["bandwidth_Bps"] = float(rate)
        memory["access_s"] = float(table["overhead"]["launch_s"] * rng.uniform(0.1, 0.6))
    table["overhead"]["launch_s"] *= float(np.exp(rng.uniform(-OFF, OFF)))
    table["waiting"] = {"serial": float(rng.uniform(0.1, 0.5)), "shared": float(rng.uniform(0.0, 0.5))}
    table["effects"][rng.choice(["moves", "contention"])] = False
    document, compute = json.loads(network), np.exp(rng.uniform(-OFF, OFF))
    kinds = sorted({op["kind"] for op in document["ops"]})
    table["factors"] = {"traffic": {kind: float(np.exp(TRAFFIC * rng.normal())) for kind in kinds}}
    for op, own_s in zip(document["ops"], Judge(document, tomllib.loads(chip)).engine_s, strict=True):
        if own_s > 0:
            op["latency_s"] = float(own_s * compute * np.exp(OWN * rng.normal()))
    return to_json(from_json(json.dumps(document), "board")), tomli_w.dumps(table)


def solved(network: str, chip: str, seconds: float) -> Solved:
    """By branch and cut, and by long annealings from the best known."""
    problem = NnpiProblem(from_json(network, "network"), parse_chip(chip, "chip"))
    found = problem.solve(seconds, 0)
    mapping, cost = found.mapping, found.cost
    steps = min(ANNEALED, 120_000_000 // len(mapping))
    for key in (1, 2):
        if cost > found.bound.cost * (1 + 1e-9):
            mapping, cost = anneal(problem.tables, mapping, steps=steps, key=key, restarts=2)
    return _checked(problem, Judge(json.loads(network), tomllib.loads(chip)), mapping, found.bound)


def partitioned(name: str, chips: int, seconds: float) -> tuple[str, str, Callable[[], Solved]]:
    """A graph, a package, and what the solver of modules finds and proves, when it is called."""
    package = load_package("mcm36")
    problem = McmProblem(load(name), package, McmConfig(chips=chips))
    tables = problem.tables
    rates = dict(zip(tables.source.tolist(), tables.tensor_s.tolist(), strict=True))
    graph = {
        "kind": "mcm-graph",
        "seconds": tables.compute_s.tolist(),
        "weight_bytes": tables.weight_bytes.tolist(),
        "tensors": [[source, rates[source], readers] for source, _, readers in tensors_of(tables)],
    }
    shown = {"name": f"mcm{chips}", "chips": chips, "sram_bytes": package.chip.sram_bytes}

    def solve() -> Solved:
        found = problem.solve(seconds, 0)
        return _checked(problem, ModuleJudge(graph, shown), found.mapping, found.bound)

    return json.dumps(graph), tomli_w.dumps(shown), solve


def program_document(program: Any) -> dict[str, Any]:
    """A program as the judge reads it."""
    return {
        "kind": "program",
        "instructions": [[each.flops, each.slow_bytes] for each in program.instructions],
        "tensors": [[t.size_bytes, t.produced, t.last_use, t.leaves] for t in program.tensors],
        "buffers": [
            [b.tensor, b.instruction, b.is_output, b.traffic_bytes, b.alias_id] for b in program.buffers
        ],
    }


def scheduled(name: str, seconds: float) -> tuple[str, str, Callable[[], Solved]]:
    """A program, a chip, and what is found and proved of its plays."""
    problem = MmapProblem(load_program(name), load_program_chip("tpuv4i"))
    document = program_document(problem.program)
    chip = dict(vars(problem.rates)) | {"name": "mmap-tpuv4i"}

    def solve() -> Solved:
        found = egrl.search(problem, method="revise", evals=REVISED, seed=0)
        judge, best, default = ProgramJudge(document, chip), found.mapping, problem.baseline.mapping
        bound, proof = program_bound(problem, seconds)
        return Solved(judge.cost(default), judge.cost(best), bound, proof, packed(default))

    return json.dumps(document), tomli_w.dumps(chip), solve


def _checked(problem: Any, judge: Any, mapping: Any, bound: Any) -> Solved:
    """What was found, as the judge of the suite counts it."""
    for one, cost in (
        (mapping, problem.model_cost(mapping)),
        (problem.baseline.mapping, problem.baseline.cost),
    ):
        assert abs(judge.cost(one) / cost - 1.0) < 1e-12, (judge.cost(one), cost)
    default = problem.baseline.mapping
    return Solved(judge.cost(default), judge.cost(mapping), bound.cost, bound.proof, packed(default))


class Making:
    """The files and lines so far."""

    def __init__(self, seconds: float, version: int) -> None:
        self.seconds, self.version = seconds, version
        path = DATA / "manifest.json"
        before = json.loads(path.read_text()) if path.exists() else {"files": {}, "instances": []}
        self.known = {line["name"]: (line, before["files"]) for line in before["instances"]}
        self.files: dict[str, str] = {}
        self.lines: list[dict[str, Any]] = []

    def write(self, folder: str, name: str, text: str) -> str:
        """Write a file of the data; its digest."""
        network = folder == "networks"
        data = gzip.compress(text.encode(), 9, mtime=0) if network else text.encode()
        path = f"{folder}/{name}" + (".json.gz" if network else ".toml")
        (DATA / folder).mkdir(parents=True, exist_ok=True)
        (DATA / path).write_bytes(data)
        self.files[path] = hashlib.sha256(data).hexdigest()
        return path

    def add(self, line: dict[str, Any], files: dict[str, str], solve: Any) -> None:
        """A line of the manifest, if enough can be gained."""
        own = [
            self.write("networks" if "/" not in name else "chips", name.strip("/"), text)
            for name, text in files.items()
        ]
        known, digests = self.known.get(line["name"], ({}, {}))
        if known and all(digests.get(path) == self.files[path] for path in own):
            found = Solved(*(known[key] for key in Solved._fields))
        else:
            found = solve()
        gain, gap = np.log(found.default_cost / found.best_cost), found.best_cost / found.bound - 1.0
        print(f"{line['name']:32} gain {gain:7.2%}, above the bound {gap:7.2%}", flush=True)
        if gain >= LEAST and gap <= WIDEST:
            name = line["name"]
            self.lines.append({**line, **found._asdict(), **({"quick": True} if name in QUICK else {})})
        self.save()

    def save(self, last: bool = False) -> None:
        """Write the manifest; until the last one stands, what was known before stays in it."""
        done = {line["name"] for line in self.lines}
        kept = [line for name, (line, _) in self.known.items() if not last and name not in done]
        lines = [*kept, *self.lines]
        files = {
            name: digest for _, all_ in self.known.values() for name, digest in all_.items()
        } | self.files
        used = {f"networks/{n}.json.gz" for x in lines for n in (x["network"], x.get("truth", [""])[0])}
        used |= {f"chips/{n}.toml" for x in lines for n in (x["chip"], x.get("truth", ["", ""])[1])}
        files = {name: digest for name, digest in sorted(files.items()) if name in used}
        document = {"version": self.version, "files": files, "instances": lines}
        (DATA / "manifest.json").write_text(json.dumps(document, indent=1) + "\n")

    def finish(self) -> None:
        """Write the manifest for good, and remove the files that no instance names."""
        self.save(last=True)
        kept = json.loads((DATA / "manifest.json").read_text())["files"]
        for path in [*DATA.glob("networks/*"), *DATA.glob("chips/*")]:
            if str(path.relative_to(DATA)) not in kept:
                path.unlink()


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="time limit of each solve")
    parser.add_argument("--version", type=int, default=2)
    parser.add_argument("--only", choices=KINDS, help="one kind; the others stay as they are")
    given = parser.parse_args()
    making = Making(given.seconds, given.version)
    for kind, table in (("nnpi", PLACED), ("mcm", MODULES), ("board", BOARDS)):
        if given.only not in (None, kind):
            continue
        for split, names in table.items():
            for number, name in enumerate(names.split()):
                workload, chip = name.split("@")
                line = {"name": name, "kind": kind, "family": family_of(workload), "split": split}
                if kind == "mcm":
                    graph, package, solve = partitioned(workload, int(chip), given.seconds)
                    line |= {"name": f"mcm:{name}", "network": f"mcm-{workload}-{chip}", "chip": f"mcm{chip}"}
                    making.add(line, {line["network"]: graph, f"/{line['chip']}": package}, solve)
                    continue
                network, text = plain(load(workload), workload), whole(chip_named(chip))
                files = {workload: network, f"/{chip}": text}
                line |= {"network": workload, "chip": chip}
                truth = (network, text)
                if kind == "board":
                    truth = drawn_board(network, text, 1000 + 100 * list(table).index(split) + number)
                    hidden = f"board-{workload}-{chip}"
                    line |= {"name": f"board:{name}", "truth": [hidden, hidden], "noise": 0.02}
                    files |= {hidden: truth[0], f"/{hidden}": truth[1]}
                making.add(line, files, partial(solved, *truth, given.seconds))
    for split, names in PROGRAMS.items() if given.only in (None, "program") else ():
        for family, name in (each.split(":") for each in names.split()):
            document, chip, solve = scheduled(name, given.seconds)
            line = {"name": f"program:{name}@tpuv4i", "kind": "program", "family": family, "split": split}
            line |= {"network": f"program-{name}", "chip": "mmap-tpuv4i"}
            making.add(line, {line["network"]: document, f"/{line['chip']}": chip}, solve)
    if given.only:
        making.save()
    else:
        making.finish()


if __name__ == "__main__":
    main()
