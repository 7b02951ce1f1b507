"""The instances: what is to be placed on what, what the default costs, the best known, and the bound that is proved.

They lie in `data/`: `manifest.json` lists them with the digest of every file. Its own digest is that of the suite, and
stands in every file of results: results of other instances are never in one table.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from math import log
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egrl_suite.judge import Judge
from egrl_suite.modules import ModuleJudge
from egrl_suite.programs import ProgramJudge

DATA = Path(__file__).with_name("data")
SPLITS = ("train", "validation", "test")
KINDS = ("nnpi", "board", "mcm", "program")


class SuiteError(Exception):
    """What a user can cause, in one line."""


@dataclass(frozen=True)
class Instance:
    """One line of the manifest.

    Attributes:
        name, kind, family, split, quick: `kind` is one of `KINDS`.
        network, chip: names of files in `data/networks` and `data/chips`.
        truth: of a board, the names of the network and chip that it is, which no method sees; else "".
        noise: standard deviation of the logarithm of a measurement.
        default_cost, best_cost, bound: seconds, of the default's placement, the best known, and what is proved of all.
        default: the default's placement, as `packed` writes it.
        proof: how the bound is proved; `python -m egrl_suite prove NAME` does it again.
    """

    name: str
    kind: str
    family: str
    split: str
    network: str
    chip: str
    default_cost: float
    best_cost: float
    bound: float
    proof: str
    default: str
    truth: tuple[str, str] = ("", "")
    noise: float = 0.0
    quick: bool = False

    @property
    def seen(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Network and chip as a method may see them: without their names."""
        network, chip = read_network(self.network), read_chip(self.chip)
        for document in (network, chip):
            document.pop("name", None)
        return network, chip

    @cached_property
    def judge(self) -> Judge | ModuleJudge | ProgramJudge:
        """Of what it truly costs."""
        network, chip = self.truth if self.kind == "board" else (self.network, self.chip)
        kinds: dict[str, Any] = {"mcm": ModuleJudge, "program": ProgramJudge}
        found: Judge | ModuleJudge | ProgramJudge = kinds.get(self.kind, Judge)(
            read_network(network), read_chip(chip)
        )
        return found

    @cached_property
    def default_mapping(self) -> NDArray[np.int16]:
        """int16 [N, H]."""
        return unpacked(self.default, self.judge.sizes.shape)

    def share(self, cost: float) -> float:
        """Of the headroom, which is the logarithm of the default's cost over the best known: how much is gained."""
        return log(self.default_cost / cost) / log(self.default_cost / self.best_cost)


DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def packed(mapping: NDArray[np.int16]) -> str:
    """A placement as text: a character a tensor, `-` where there is none."""
    return "".join("-" if n < 0 else DIGITS[n] for n in np.asarray(mapping).reshape(-1).tolist())


def unpacked(text: str, shape: tuple[int, ...]) -> NDArray[np.int16]:
    """The placement int16 of a text. Raises SuiteError if it is of another size."""
    if len(text) != int(np.prod(shape)) or set(text) - set(DIGITS) - {"-"}:
        raise SuiteError(
            f"a placement: expected {int(np.prod(shape))} characters of 0-9a-zA-Z-, found {len(text)}"
        )
    return np.array([DIGITS.find(c) for c in text], np.int16).reshape(shape)


@cache
def _manifest() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DATA / "manifest.json").read_text("utf-8"))
    return found


@cache
def version() -> dict[str, Any]:
    """The version of the suite, and the digest of its manifest, which holds those of all files."""
    digest = hashlib.sha256((DATA / "manifest.json").read_bytes()).hexdigest()
    return {"version": _manifest()["version"], "digest": digest[:16]}


@cache
def _bytes(name: str) -> bytes:
    """A file of the data. Raises SuiteError unless it has the digest of the manifest."""
    data = (DATA / name).read_bytes()
    wanted, found = _manifest()["files"][name], hashlib.sha256(data).hexdigest()
    if found != wanted:
        raise SuiteError(f"{DATA / name}: expected a file with the digest {wanted[:16]}, found {found[:16]}")
    return data


def read_network(name: str) -> dict[str, Any]:
    """A network, parsed anew: a method may change it."""
    found: dict[str, Any] = json.loads(gzip.decompress(_bytes(f"networks/{name}.json.gz")))
    return found


def read_chip(name: str) -> dict[str, Any]:
    """A chip, parsed anew."""
    return tomllib.loads(_bytes(f"chips/{name}.toml").decode())


@cache
def all_instances() -> tuple[Instance, ...]:
    """Every instance, in the order of the manifest."""
    return tuple(
        Instance(**{**line, "truth": tuple(line.get("truth", ("", "")))}) for line in _manifest()["instances"]
    )


def instances(split: str = "", kinds: Sequence[str] = KINDS, quick: bool = False) -> list[Instance]:
    """Those of a split, of some kinds, or of the quick slice."""
    return [
        one
        for one in all_instances()
        if split in ("", one.split) and one.kind in kinds and (one.quick or not quick)
    ]


def find(name: str) -> Instance:
    """The instance of that name. Raises SuiteError if there is none."""
    for one in all_instances():
        if one.name == name:
            return one
    raise SuiteError(f"{name!r}: expected an instance of `python -m egrl_suite list`, found another name")
