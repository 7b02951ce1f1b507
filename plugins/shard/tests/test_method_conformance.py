"""Methods of egrl, and of a plug-in beside this one, serve sharding instances."""

from __future__ import annotations

from method_suite import *  # noqa: F403
from method_suite import Cases

import shard_subjects
import subjects

subjects.take_part({}, {"tag": ("tag", {})})
WHOLE = [(variant, "shard") for variant in ("annealing", "ea", "random", "tag")]
CASES = Cases(WHOLE, shard_subjects.PROBLEMS, ())
