"""What TorchRec's planner takes: `EmbeddingShardingPlanner(proposer=Proposer(), partitioner=Partitioner())`.

The planner offers each table's ways to shard it, with a cost and bytes for each shard, as its constraints
(`ParameterConstraints`) leave them; it tells a proposer how much memory is left for tables only with its first answer.
So the first proposal is TorchRec's own first guess, and the second is the plan. Ranks stand in it already; this
partitioner keeps them, TorchRec's would lay the shards anew.

Written for TorchRec 1.8.0, whose rules for places are: `uniform` takes all ranks in order; `host` one host, by rows in
the order of its ranks, by columns each shard on any of them; `device` any rank; `multi_host` (grid) a host for each
run of as many shards as a host has ranks; the shards of columns of `key_value` tables lie apart; tables with one
`dependency` share a host.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence

import numpy as np
from torchrec.distributed.planner.types import (
    Enumerator,
    PlannerError,
    PlannerErrorType,
    ShardingOption,
    Topology,
)
from torchrec.distributed.planner.types import Partitioner as AnyPartitioner
from torchrec.distributed.planner.types import Proposer as AnyProposer

from egrl_torchrec.instance import Instance, Option, Piece, Plan, groups
from egrl_torchrec.solve import Solution, solve

SECONDS = 30.0
"""Seconds that the proposer looks for a plan, if the caller does not say."""
EACH_S = 0.2
"""Seconds that the partitioner has for a proposal: the planner's own proposers make hundreds."""
logger = logging.getLogger("egrl_torchrec")


class Proposer(AnyProposer):
    """Proposes the plan that TorchRec's own model rates best, as far as it is found in time.

    Args:
        seconds: for the search; its memory and costs are TorchRec's, read at the first feedback.
        seed: of what the search draws.

    Attributes:
        solution: rating, proven bound and plan; None before the search. A line of the log says them, too.
    """

    def __init__(self, seconds: float = SECONDS, seed: int = 0) -> None:
        self._seconds, self._seed = seconds, seed
        self.solution: Solution | None = None
        self._tables: list[list[ShardingOption]] = []
        self._instance: Instance | None = None
        self._asked = 0

    def load(self, search_space: list[ShardingOption], enumerator: Enumerator | None = None) -> None:
        """Take the ways to shard each table."""
        self._tables = by_table(search_space)
        self.solution, self._instance, self._asked = None, None, 0

    def propose(self) -> list[ShardingOption] | None:
        """The least cost in all for each table; then the plan; then None."""
        self._asked += 1
        if self._asked == 1:
            return [min(options, key=lambda option: option.total_perf) for options in self._tables]
        if self._asked > 2 or self._instance is None:
            return None
        self.solution = found = solve(self._instance, self._seconds, self._seed)
        logger.info(summary(found))
        # Ranks are laid only now: after a feedback the planner clears those of the options that it was given before.
        return None if found.plan is None else laid(self._instance, self._tables, found.plan)

    def feedback(
        self,
        partitionable: bool,
        plan: list[ShardingOption] | None = None,
        perf_rating: float | None = None,
        storage_constraint: Topology | None = None,
    ) -> None:
        """Take the memory that is left for tables."""
        if storage_constraint is not None:
            self._instance = instance_of(self._tables, storage_constraint)


class Partitioner(AnyPartitioner):
    """Lays the shards of a proposal on ranks: as `Proposer` says, or as well as it is found in `seconds`."""

    def __init__(self, seconds: float = EACH_S, seed: int = 0) -> None:
        self._seconds, self._seed = seconds, seed

    def partition(self, proposal: list[ShardingOption], storage_constraint: Topology) -> list[ShardingOption]:
        """The proposal with a rank for each shard. PlannerError if none was found that keeps memory and hosts."""
        tables = [[option] for option in proposal]
        instance = instance_of(tables, storage_constraint)
        known = plan_of(instance, proposal)
        if known is not None and not instance.broken(known):
            return proposal
        plan = solve(instance, self._seconds, self._seed).plan
        if plan is None:
            message = f"no place was found for the shards of {len(proposal)} tables in {self._seconds:g} s"
            raise PlannerError(message, PlannerErrorType.PARTITION)
        return laid(instance, tables, plan)


def summary(found: Solution) -> str:
    """The rating and what is proved of it, in a line."""
    took = f"{found.seconds:.1f} s"
    if math.isinf(found.bound):
        return f"no plan: the tables do not fit into the memory of all ranks, proved in {took}"
    if found.plan is None:
        return f"no plan found in {took}; none is rated below {found.bound:.5g}"
    gap = (
        f"at most {100.0 * max(0.0, found.gap):.2f} % above the best" if found.bound else "nothing is proved"
    )
    return f"rated {found.rating:.5g} by TorchRec's model, {gap} (proven bound {found.bound:.5g}); {took}"


def by_table(options: Sequence[ShardingOption]) -> list[list[ShardingOption]]:
    """The options of each table, in the order of the tables."""
    found: dict[str, list[ShardingOption]] = {}
    for option in options:
        found.setdefault(option.fqn, []).append(option)
    return list(found.values())


def instance_of(tables: Sequence[Sequence[ShardingOption]], topology: Topology) -> Instance:
    """The numbers of these options and of the ranks' memory."""
    capacity = [[d.storage.hbm, d.storage.ddr, d.storage.ssd] for d in topology.devices]
    local = int(topology.intra_group_size)
    found = [[_option(option, local) for option in options] for options in tables]
    names = [options[0].dependency or options[0].fqn for options in tables]
    return Instance(found, groups(names), np.array(capacity, np.int64), local)


def _option(option: ShardingOption, local: int) -> Option:
    """One way to shard as pieces. Runs of shards that lie on ranks in order are one piece."""
    cost = np.array([shard.perf.total for shard in option.shards])
    memory = np.array([[s.storage.hbm, s.storage.ddr, s.storage.ssd] for s in option.shards], np.int64)
    size, together, apart = _shape(option, local)
    ends = range(size, len(cost) + 1, size)
    pieces = tuple(Piece(cost[end - size : end], memory[end - size : end]) for end in ends)
    return Option(pieces, together, apart)


def _shape(option: ShardingOption, local: int) -> tuple[int, bool, bool]:
    """Shards of a piece, whether all pieces lie on one host, and whether they lie apart."""
    kind, rows = option.partition_by, option.sharding_type == "table_row_wise"
    if kind == "uniform":
        return len(option.shards), False, False
    if kind == "host":
        return (local if rows else 1), True, False
    if kind == "multi_host":
        return local, False, True
    if kind == "device":
        apart = option.sharding_type == "column_wise" and option.compute_kernel == "key_value"
        return 1, False, apart
    raise PlannerError(
        f"table {option.name}: this proposer knows no shards by {kind!r}", PlannerErrorType.PARTITION
    )


def plan_of(instance: Instance, proposal: Sequence[ShardingOption]) -> Plan | None:
    """The plan that the ranks of a proposal stand for; None if a rank is missing or out of order."""
    plan = []
    for options, chosen in zip(instance.tables, proposal, strict=True):
        ranks = [shard.rank for shard in chosen.shards]
        places = []
        for piece in options[0].pieces:
            size = len(piece.cost)
            own, ranks = ranks[:size], ranks[size:]
            if None in own or own != list(range(own[0], own[0] + size)) or own[0] % size:
                return None
            places.append(own[0] // size)
        plan.append((0, tuple(places)))
    return plan


def laid(instance: Instance, tables: Sequence[Sequence[ShardingOption]], plan: Plan) -> list[ShardingOption]:
    """The options of a plan, with the ranks of their shards."""
    proposal = []
    for options, found, (number, places) in zip(tables, instance.tables, plan, strict=True):
        shards = iter(options[number].shards)
        for piece, place in zip(found[number].pieces, places, strict=True):
            ranks = instance.ranks_of(piece, place)
            for rank in range(ranks.start, ranks.stop):
                next(shards).rank = rank
        proposal.append(options[number])
    return proposal
