"""The executor of `egrl.Search`, whose caller measures."""

from __future__ import annotations

from collections import deque

from egrl.core.archive import Proposals
from hwsim.problem import Evaluation, Keys


class CallerMeasures:
    """The executor of a `Search`: hands out submitted rows in order; results may come back in any order.

    Attributes:
        waiting: parts that were submitted and not handed out, with their keys.
        back: whether there are results that `ready` has not given.
    """

    def __init__(self) -> None:
        self.waiting: deque[tuple[Proposals, Keys]] = deque()
        self._results: list[tuple[Proposals, Evaluation]] = []

    @property
    def back(self) -> bool:
        return bool(self._results)

    def take(self, limit: int | None) -> tuple[Proposals, Keys]:
        """Hand out the first rows that wait, `limit` at most (None: all of their part)."""
        proposals, key = self.waiting.popleft()
        if limit is not None and len(proposals) > limit:
            self.waiting.appendleft((proposals.rows(slice(limit, None)), key[limit:]))
            proposals, key = proposals.rows(slice(limit)), key[:limit]
        return proposals, key

    def give_back(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """The results of rows that were handed out."""
        self._results.append((proposals, evaluation))

    def submit(self, proposals: Proposals, key: Keys) -> None:
        """Let the rows wait."""
        self.waiting.append((proposals, key))

    def ready(self, timeout_s: float) -> list[tuple[Proposals, Evaluation]]:
        """The results given back since the last call; it never waits."""
        results, self._results = self._results, []
        return results

    def rest(self) -> bool:
        """False: the caller may never give back what was handed out."""
        return False

    def close(self) -> None:
        """Nothing to close."""
