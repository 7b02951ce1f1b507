"""Schedules of Vela's Python core as a problem: SRAM for weights, cascades and stripes of each op, judged by Vela.

Source: `egrl_vela.legacy` says which of Vela's decisions are meant.
"""

from __future__ import annotations

import hashlib
import json
import weakref
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge, Gt
from typing_extensions import Doc

from egrl_vela.compiler import Target, digest
from egrl_vela.judge import judge
from egrl_vela.schedules import Schedules
from hwsim.capabilities import Parts
from hwsim.mappings import choice_columns
from hwsim.problem import About, Baseline, Evaluation, Keys, Mapping16, Observation, Status, Violation
from hwsim.space import Space
from workloads.errors import InputError

VERSION = 1
"""Goes up with every change to what a choice means."""
WEIGHTS = (0.0, 0.1, 0.25, 0.4, 0.55, 0.7, 0.85, 1.0)
STRIPES = (0.2, 0.35, 0.5, 0.65, 0.8, 1.0)
CASCADE = (0.0, 1.0)
HEADS = ("weights", "cascade", "stripes")
LABELS = (
    tuple(f"{100 * share:g}%" for share in WEIGHTS),
    ("apart", "may"),
    tuple(f"{100 * share:g}%" for share in STRIPES),
)
ALL = "all ops"
"""The node whose shares hold for all ops: of weights, and of stripes for all first cascades."""
KINDS, OFTEN = (ALL, *HEADS), (0.12, 0.4, 0.27, 0.21)
"""What a move changes, and how often."""
RUNS = (1, 1, 2, 4, 8)
"""Ops to which a move gives one share of weights."""
SCHEMA_VERSION = 401
MOST_KEPT = 10_000
DEVICES = (
    "ethos-u65-256:Ethos_U65_High_End:Dedicated_Sram_384KB",
    "ethos-u65-512:Ethos_U65_Mid_End:Dedicated_Sram_512KB",
    "ethos-u55-128:Ethos_U55_High_End_Embedded:Shared_Sram",
)


@dataclass(frozen=True)
class VelaConfig:
    """Settings of the problem."""

    config: Annotated[str, Doc("Vela's configuration file")] = "Arm/vela.ini"
    sram: Annotated[int, Ge(0), Doc("bytes of SRAM of the device; 0: those of the memory mode")] = 0
    timeout: Annotated[float, Gt(0), Doc("seconds that a schedule may take")] = 120.0


class VelaProblem:
    """Choose how Vela's Python core schedules a network on an Ethos-U.

    mapping   int16 [N, 3]: for all ops together, then for each op of the NPU, what share its weights' buffers get of
              the SRAM that they may take, whether a cascade may go through it, and what share the stripes get of a
              cascade that begins with it; decisions that an op does not have are dead
    cost      cycles of an inference by Vela's estimate, of the ops on the NPU; a profile has those of each op
    reward    (cycles of Vela's own schedule / cycles)^2 if it ran; -epsilon if it did not
    valid     the program takes no more SRAM than there is, or than Vela's own
    epsilon   the share of the SRAM in use that is too much; 0 if all fits

    Attributes:
        target: the model and its device.
        ops: what Vela says of each op.
    """

    def __init__(self, target: Target, config: VelaConfig) -> None:
        """Read the network and let Vela schedule it. InputError where Vela fails or is not there."""
        self.target, self.config = target, config
        self._schedules: Schedules | None = None
        self._kept: dict[bytes, dict[str, Any]] = {}
        described = self._process().described
        self.ops = described.pop("ops")
        if not self.ops:
            raise InputError(f"{target.model}: Vela's Python core runs no op of it on the NPU")
        self._limit = max(int(described["limit"]), int(described["sram"]))
        self._digest = digest(version("ethos-u-vela"), target)
        device = f"{target.accelerator}:{target.system}:{target.memory}"
        self.about = About(
            "vela",
            Path(target.model).stem,
            device,
            "cycles",
            baseline_name="Vela's Python core",
            evaluated="schedules",
            step="op",
            plan_file="decisions.json",
            compiled=True,
        )
        counts = [[len(WEIGHTS), 1, len(STRIPES)]]
        size = [[1, 0, 1]]
        for op in self.ops:
            buffered = op["weights"] > 0 and not op["fully_connected"]
            counts.append([len(WEIGHTS), len(CASCADE), len(STRIPES)])
            size.append(
                [op["weights"] * buffered, op["ofm"] * op["cascadable"], op["ifm"] * op["cascadable"]]
            )
        choices, bytes_ = np.array(counts, np.int16), np.array(size, np.int64)
        own = np.where(bytes_ > 0, choices - 1, -1).astype(np.int16)
        names = [ALL, *(f"{number} {op['name']}" for number, op in enumerate(self.ops))]
        self.space = Space(names, HEADS, choices, LABELS, bytes_, initial=own)
        self.parts = Parts(
            tuple(names[1:]),
            "sum",
            np.arange(1, len(names), dtype=np.int32),
            tuple(op["kind"] for op in self.ops),
        )
        self.observation = self._observed(described["cycles"])
        self.baseline = Baseline(own, float(np.sum(described["cycles"])), "Vela's Python core")

    def _observed(self, cycles: list[float]) -> Observation:
        """The ops as a graph: log1p of weights, of the bytes that are read and written, and of Vela's own cycles."""
        rows = [[op["weights"], op["ifm"], op["ofm"], of] for op, of in zip(self.ops, cycles, strict=True)]
        kinds = {kind: number for number, kind in enumerate(sorted({op["kind"] for op in self.ops}), 1)}
        kind = np.array([0, *(kinds[op["kind"]] for op in self.ops)])[:, None] / (len(kinds) + 1)
        x = np.concatenate([kind, np.log1p(np.array([[0.0] * 4, *rows])) / 16], axis=1)
        columns = choice_columns(self.space.choice_rank, self.space.initial)
        edges = [(n + 1, after + 1) for n, op in enumerate(self.ops) for after in op["next"]]
        edges += [(0, n + 1) for n in range(len(self.ops))]
        index = np.ascontiguousarray(np.array(edges, np.int64).T)
        return Observation(np.concatenate([x, columns], axis=1).astype(np.float32), index, SCHEMA_VERSION)

    def shares(self, mapping: Mapping16) -> list[float]:
        """What `egrl_vela.legacy` is asked for one mapping [N, 3]; 1 for dead decisions."""
        rows = [[1.0 if c < 0 else of[c] for c, of in zip(row, (WEIGHTS, CASCADE, STRIPES), strict=True)]
                for row in mapping.tolist()]  # fmt: skip
        return [rows[0][2], rows[0][0], *(share for row in rows[1:] for share in row)]

    def evaluate(self, mapping: Mapping16, key: Keys) -> Evaluation:
        """Let Vela schedule by mappings int16 [B, N, 3]. Nothing is random: keys are ignored.

        Raises:
            ValueError: the shape, the dtype or a choice number is wrong.
        """
        self.space.check(mapping, key)
        judged = self.space.canonical(mapping)
        found = [self._found(row) for row in judged]
        failed = np.array(["error" in row for row in found])
        blank = [np.nan] * len(self.ops)
        parts = np.array([row.get("cycles", blank) for row in found])
        used = np.array([row.get("sram", 0) for row in found])
        ran = ~failed & (used <= self._limit)
        over = np.where(failed, 1.0, np.maximum(0, used - self._limit) / np.maximum(1, used))
        cost = np.array([float(np.sum(row)) for row in parts])
        own = (judged == self.baseline.mapping).all(axis=(1, 2))
        cost = np.where(own, self.baseline.cost, cost)
        made = Evaluation.of_costs(
            cost, self.baseline.cost, ran, judged, np.where(ran, 0.0, over), parts=parts.astype(np.float32)
        )
        return replace(made, status=np.where(failed, Status.FAILED, made.status).astype(np.int8))

    def move(self, mapping: Mapping16, key: np.uint64) -> Mapping16:
        """One mapping [N, 3] after some changes: shares for all ops, for a run of ops, cascades cut or joined."""
        draw, changed = np.random.default_rng(int(key)), mapping.copy()
        for _ in range(draw.geometric(0.5)):
            kind = KINDS[int(draw.choice(len(KINDS), p=OFTEN))]
            if kind == ALL:
                head = HEADS.index(str(draw.choice(("weights", "stripes"))))
                nodes = np.zeros(1, np.intp)
            else:
                head = HEADS.index(kind)
                live = np.flatnonzero(self.space.live[1:, head]) + 1
                if not len(live):
                    continue
                at, length = int(draw.integers(len(live))), int(draw.choice(RUNS)) if kind == "weights" else 1
                nodes = live[at : at + length]
            step = 1 + int(draw.integers(self.space.num_choices[nodes[0], head] - 1))
            changed[nodes, head] = (changed[nodes[0], head] + step) % self.space.num_choices[nodes[0], head]
        return changed

    def judge(self, mapping: Mapping16) -> list[Violation]:
        """That one mapping [N, 3] takes too much SRAM, or why Vela fails."""
        found = self._found(self.space.canonical(mapping[None])[0])
        return judge(found.get("sram"), self._limit, found.get("error", ""))

    def cycles(self, mapping: Mapping16) -> list[float]:
        """Of each op by one mapping [N, 3] that is valid."""
        return list(self._found(self.space.canonical(mapping[None])[0])["cycles"])

    def write(self, mapping: Mapping16) -> Path:
        """The folder of what Vela writes by one mapping [N, 3]; it is there as long as the problem is."""
        return self._process().write(self.shares(mapping))

    def plan_text(self, mapping: Mapping16) -> str:
        """The decisions of one mapping [N, 3] that are not Vela's own, by op, as JSON."""
        nodes = {}
        for number, name in enumerate(self.space.nodes):
            row = {
                head: self.space.labels[h][mapping[number, h]]
                for h, head in enumerate(HEADS)
                if mapping[number, h] != self.baseline.mapping[number, h]
            }
            if row:
                nodes[name] = row
        document = {"kind": "vela-decisions", "version": 1, "digest": self._digest, "ops": nodes}
        return json.dumps(document, indent=1)

    def read_plan(self, text: str, where: str) -> Mapping16:
        """int16 [N, 3] of such a text. InputError if it is none of this network and device."""
        from workloads.json_text import parse_document

        document = parse_document(text, where, "vela-decisions", 1)
        if document.get("digest") != self._digest:
            raise InputError(f"{where}: expected decisions for this model, device and Vela, found others")
        mapping = self.baseline.mapping.copy()
        numbers = {name: number for number, name in enumerate(self.space.nodes)}
        try:
            for name, row in document["ops"].items():
                for head, label in row.items():
                    h = HEADS.index(head)
                    mapping[numbers[name], h] = LABELS[h].index(label)
        except (KeyError, ValueError, AttributeError, TypeError) as error:
            raise InputError(f"{where}: expected decisions by op, found: {error}") from None
        return self.space.canonical(mapping[None])[0]

    def fingerprint(self) -> str:
        """Hex digest of version, model, device and Vela's version."""
        return hashlib.sha256(f"{VERSION} {self._digest}".encode()).hexdigest()

    def _found(self, mapping: Mapping16) -> dict[str, Any]:
        key = mapping.tobytes()
        if key not in self._kept:
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            self._kept[key] = self._process().ask(self.shares(mapping))
        return self._kept[key]

    def _process(self) -> Schedules:
        if self._schedules is None:
            self._schedules = Schedules(self.target, self.config.timeout)
            weakref.finalize(self, self._schedules.close)
        return self._schedules

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_schedules": None}
