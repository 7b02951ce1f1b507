"""An executor on Ray (the extra `ray`): proposals are measured on this machine or on many.

Source: Moritz et al., "Ray: a distributed framework for emerging AI applications" (OSDI 2018): tasks without side
effects are repeated where a worker or a node dies. Scheduling, repeating and moving of data are Ray's alone.

What is sent, and what is not: a problem is pickled once into Ray's object store, and each worker process unpickles it
once. Code is never sent but for the few lines that look for egrl: it must be installed, in this version, on every
node. Results come back pickled, too: arrays that Ray hands over in its own memory are read-only, for which kernels
would be compiled again, and which no other executor gives.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from egrl.core.failure import RunFailure
from egrl.core.proposals import Proposals
from egrl.core.version import VERSION
from egrl.measure.ray import connection as ray_connection
from hwsim.problem import Evaluation, Keys, Mapping16, Problem

MAX_RETRIES = 3
"""Times that a slice is measured again after its worker or its node died."""

# ---- in a worker

_held: dict[str, Problem] = {}


def measure_here(
    boxed: Sequence[Any], expected: tuple[str, str], mapping: Mapping16, key: Keys
) -> bytes | str:
    """A pickled `Evaluation` of mappings int16 [B, N, H] with keys uint64 [B]; text: why this node cannot.

    `boxed` holds the reference of the pickled problem, `expected` the version of egrl and the problem's fingerprint.
    """
    import ray

    reference = boxed[0]
    if reference.hex() not in _held:
        version, fingerprint = expected
        if version != VERSION:
            return f"expected egrl {version} there, found {VERSION}"
        try:
            problem: Problem = pickle.loads(ray.get(reference))
        except (ImportError, AttributeError, TypeError) as error:
            return f"the problem's code is not the same there: {error}"
        if problem.fingerprint() != fingerprint:
            return (
                f"the problem's code is not the same there: expected fingerprint {fingerprint[:12]}, "
                f"found {problem.fingerprint()[:12]}"
            )
        _held[reference.hex()] = problem
    return pickle.dumps(_held[reference.hex()].evaluate(mapping.copy(), key.copy()))


def _task() -> Callable[..., bytes | tuple[str, str]]:
    """A function that Ray sends by value, so that it can say that egrl is missing; text comes with the node."""

    def measure(*arguments: Any) -> bytes | tuple[str, str]:
        import ray

        try:
            from egrl.measure.ray.executor import measure_here
        except ImportError as error:
            found: bytes | str = f"expected egrl installed there: {error}"
        else:
            found = measure_here(*arguments)
        node: Any = ray.util.get_node_ip_address  # type: ignore[attr-defined,unused-ignore]
        return (str(node()), found) if isinstance(found, str) else found

    return measure


# ---- where the search runs


class RayCluster:
    """Measures as tasks of Ray, each batch cut into `workers` slices.

    Without an address a cluster of `workers` CPUs is started on this machine and stopped by `close`; with one, that
    cluster is joined and left as it is. Where the calling program has joined a cluster already, that one is used.

    A slice whose worker or node died is measured again elsewhere (evaluation is pure), `MAX_RETRIES` times.
    """

    def __init__(self, problems: Sequence[Problem], workers: int, address: str = "") -> None:
        """Raises InputError where the address is not that of a cluster, RunFailure where none can be started."""
        self._workers = workers
        self._waiting: dict[Any, Proposals] = {}
        with ExitStack() as stack:
            self._ray = stack.enter_context(ray_connection.join_cluster(address, workers))
            dumps = self._ray.cloudpickle.dumps  # pickle, but classes of a script go along
            self._measure = self._ray.remote(num_cpus=1, max_retries=MAX_RETRIES)(_task())
            self._problems = [([self._ray.put(dumps(p))], (VERSION, p.fingerprint())) for p in problems]
            self._connection = stack.pop_all()

    def submit(self, proposals: Proposals, key: Keys) -> None:
        """Queue the slices of a batch."""
        boxed, expected = self._problems[proposals.problem]
        for part in np.array_split(np.arange(len(proposals)), min(self._workers, len(proposals))):
            rows = slice(int(part[0]), int(part[-1]) + 1)
            reference = self._measure.remote(boxed, expected, proposals.mapping[rows], key[rows])
            self._waiting[reference] = proposals.rows(rows)

    def ready(self, timeout_s: float) -> list[tuple[Proposals, Evaluation]]:
        """Finished slices; waits up to `timeout_s` for the first. RunFailure where Ray gave a slice up."""
        if not self._waiting:
            return []
        references = list(self._waiting)
        finished, _ = self._ray.wait(references, num_returns=1, timeout=timeout_s)
        if finished:
            finished, _ = self._ray.wait(references, num_returns=len(references), timeout=0)
        return [(self._waiting.pop(reference), self._result(reference)) for reference in finished]

    def _result(self, reference: Any) -> Evaluation:
        failures = self._ray.exceptions
        try:
            found = self._ray.get(reference)
        except failures.RayTaskError as error:
            if isinstance(error.cause, Exception):
                raise error.cause from None
            raise RunFailure(f"a measurement failed: {error}") from error
        except failures.RayError as error:
            reason = str(error).strip().partition("\n")[0].partition(". ")[0] or "no reason given"
            tries = f"{MAX_RETRIES + 1} tries at most"
            raise RunFailure(f"Ray gave up measuring ({tries}): {type(error).__name__}: {reason}") from error
        if isinstance(found, bytes):
            evaluation: Evaluation = pickle.loads(found)
            return evaluation
        node, reason = found
        raise RunFailure(f"Ray node {node} cannot measure: {reason}")

    def rest(self) -> bool:
        """What was submitted is Ray's to measure, and comes back."""
        return True

    def close(self) -> None:
        """Leave the cluster, and stop it if it was started here; results still under way are dropped."""
        self._waiting.clear()
        self._connection.close()
