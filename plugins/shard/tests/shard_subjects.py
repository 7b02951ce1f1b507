"""What of this plug-in takes part in egrl's suites."""

from __future__ import annotations

from collections.abc import Callable

import subjects
from egrl_shard.load import parse
from egrl_shard.problem import Shard
from hwsim.problem import Problem
from make_sharding import make

PROBLEMS: dict[str, Callable[[], Problem]] = {
    "shard": lambda: Shard(parse(make(7, nodes=7), "made", "made")),
}
subjects.take_part(PROBLEMS, {})
