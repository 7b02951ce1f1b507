"""An executor on Ray (the extra `ray`): proposals are measured on this machine or on many.

Source: Moritz et al., "Ray: a distributed framework for emerging AI applications" (OSDI 2018): tasks without side
effects are repeated where a worker or a node dies. Scheduling, repeating and moving of data are Ray's alone.

What is sent, and what is not: a problem is pickled once into Ray's object store, and each worker process unpickles it
once. Code is never sent but for the few lines that look for egrl: it must be installed, in this version, on every
node. Results come back pickled, too: arrays that Ray hands over in its own memory are read-only, for which kernels
would be compiled again, and which no other executor gives.

Joining a Ray cluster, or starting one here: within `joined`, Ray is connected and says nothing.

Nothing about a run is reported to anyone (Ray's usage statistics are off), and no folder is uploaded.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from egrl.core import VERSION
from egrl.core.archive import Proposals
from egrl.measure.apart import answer
from egrl.measure.attempt import Attempt, Failures, failed, joined
from hwsim.problem import Evaluation, Keys, Mapping16, Problem
from workloads.errors import InputError, RunFailure

MAX_RETRIES = 3
"""Times that a slice is measured again after its worker or its node died."""

# ---- in a worker

_held: dict[str, Problem] = {}


def measure_here(
    boxed: Sequence[Any], expected: tuple[str, str], mapping: Mapping16, key: Keys
) -> bytes | str:
    """A pickled `Attempt` at mappings int16 [B, N, H] with keys uint64 [B]; text: why this node cannot.

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
    return answer(_held[reference.hex()], mapping, key.copy())


def _task() -> Callable[..., bytes | tuple[str, str]]:
    """A function that Ray sends by value, so that it can say that egrl is missing; text comes with the node."""

    def measure(*arguments: Any) -> bytes | tuple[str, str]:
        import ray

        try:
            from egrl.measure.ray_executor import measure_here
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

    A slice whose worker or node died is measured again elsewhere (evaluation is pure), `MAX_RETRIES` times; then its
    rows one by one, and those whose worker dies have failed.
    """

    def __init__(self, problems: Sequence[Problem], workers: int, address: str = "") -> None:
        """Raises InputError where the address is not that of a cluster, RunFailure where none can be started."""
        self._workers = workers
        self._waiting: dict[Any, tuple[Proposals, Keys]] = {}
        self._failures, self._measured = Failures(), False
        with ExitStack() as stack:
            self._ray = stack.enter_context(join_cluster(address, workers))
            dumps = self._ray.cloudpickle.dumps  # pickle, but classes of a script go along
            self._measure = self._ray.remote(num_cpus=1, max_retries=MAX_RETRIES)(_task())
            self._problems = [([self._ray.put(dumps(p))], (VERSION, p.fingerprint())) for p in problems]
            self._connection = stack.pop_all()

    def submit(self, proposals: Proposals, key: Keys) -> None:
        """Queue the slices of a batch."""
        for part in np.array_split(np.arange(len(proposals)), min(self._workers, len(proposals))):
            rows = slice(int(part[0]), int(part[-1]) + 1)
            asked = (proposals.rows(rows), key[rows])
            self._waiting[self._task(*asked)] = asked

    def _task(self, proposals: Proposals, key: Keys, retries: int = MAX_RETRIES) -> Any:
        """Ray's reference of what will be an answer of `measure_here`."""
        boxed, expected = self._problems[proposals.problem]
        return self._measure.options(max_retries=retries).remote(boxed, expected, proposals.mapping, key)

    def ready(self, timeout_s: float) -> list[tuple[Proposals, Evaluation]]:
        """Finished slices; waits up to `timeout_s` for the first. RunFailure where Ray gave a slice up."""
        if not self._waiting:
            return []
        references = list(self._waiting)
        finished, _ = self._ray.wait(references, num_returns=1, timeout=timeout_s)
        if finished:
            finished, _ = self._ray.wait(references, num_returns=len(references), timeout=0)
        results = []
        for reference in finished:
            proposals, key = self._waiting.pop(reference)
            found = self._attempt(reference, proposals, key)
            results.append((proposals, self._failures.take(found, int(proposals.tickets[0]))))
        return results

    def _attempt(self, reference: Any, proposals: Proposals, key: Keys) -> Attempt:
        """What came of a slice; if its workers died, of its rows one by one: those that kill theirs have failed.

        RunFailure where Ray gives up and nothing was ever measured.
        """
        try:
            return self._result(reference)
        except _Died as error:
            if len(proposals) == 1 and self._measured:
                return Attempt(
                    failed(proposals.mapping), (f"it ended the process that measured it: {error}",)
                )
            if len(proposals) == 1:
                raise RunFailure(
                    f"Ray gave up measuring ({MAX_RETRIES + 1} tries at most): {error}"
                ) from error
        rows = [(proposals.rows(slice(row, row + 1)), key[row : row + 1]) for row in range(len(proposals))]
        return joined([self._attempt(self._task(*row, retries=0), *row) for row in rows])

    def _result(self, reference: Any) -> Attempt:
        failures = self._ray.exceptions
        try:
            found = self._ray.get(reference)
        except failures.RayTaskError as error:
            if isinstance(error.cause, Exception):
                raise error.cause from None
            raise RunFailure(f"a measurement failed: {error}") from error
        except failures.RayError as error:
            reason = str(error).strip().partition("\n")[0].partition(". ")[0] or "no reason given"
            raise _Died(f"{type(error).__name__}: {reason}") from error
        if isinstance(found, bytes):
            answered: Attempt | Exception = pickle.loads(found)
            if isinstance(answered, Exception):
                raise answered
            self._measured = True
            return answered
        node, reason = found
        raise RunFailure(f"Ray node {node} cannot measure: {reason}")

    def rest(self) -> bool:
        """What was submitted is Ray's to measure, and comes back."""
        return True

    def close(self) -> None:
        """Leave the cluster, and stop it if it was started here; results still under way are dropped."""
        self._waiting.clear()
        self._connection.close()


class _Died(Exception):
    """Ray gave up a task since its worker or node died; the message says how."""


ANSWER_S = 20.0
"""Seconds that a cluster has to answer."""
LONGEST_FOLDER = 20
"""Characters; a path of Ray's sockets has 107 at most, some 85 of them Ray's own and our folder's name."""
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # what Ray will do of itself; else it warns
}


def check(address: str) -> None:
    """That Ray is installed and the cluster answers; InputError in one line where not."""
    if importlib.util.find_spec("ray") is None:
        raise InputError("--executor ray: Ray is not installed; expected it: pip install 'egrl[ray]'")
    reason = _why_not(address) if address and not _connected() else ""
    if reason:
        raise InputError(f"--ray-address {address}: expected a Ray cluster, found none: {reason}")


def _connected() -> bool:
    ray = sys.modules.get("ray")
    return ray is not None and ray.is_initialized()


TRIES = "8"
"""Ray's attempts to connect, a second each."""
TOKEN = (
    "it asks for a token: expected RAY_AUTH_MODE=token in the environment, and the token of `ray get-auth-token` on its"
    " head in ~/.ray/auth_token"
)
PROBE = "import sys; from egrl.measure.ray_executor import probe; sys.exit(probe(sys.argv[1]))"


def probe(address: str) -> int:
    """0 where the cluster lets this machine in; else print in one line why not, and return 1.

    In a process of its own, because Ray waits for minutes, writes to stderr and may end its process where none answers.
    """
    os.environ["RAY_NUM_REDIS_GET_RETRIES"] = TRIES  # read when Ray is imported
    import ray

    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL)
    except (OSError, RuntimeError, ValueError) as error:
        print(TOKEN if "InvalidAuthToken" in str(error.__cause__) else " ".join(str(error).split()))
        return 1
    ray.shutdown()
    return 0


def _why_not(address: str) -> str:
    """Why the cluster at auto or HOST:PORT cannot be joined; empty where it can."""
    host, _, port = address.rpartition(":")
    if host:
        try:
            socket.create_connection((host.strip("[]"), int(port)), ANSWER_S / 2).close()
        except OSError as error:
            return error.strerror or str(error)
    probe = [sys.executable, "-c", PROBE, address]
    try:
        answer = subprocess.run(
            probe,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=ANSWER_S,
            check=False,
            env={**os.environ, **_paths()},
        )
    except subprocess.TimeoutExpired:
        join = f", and a node of it on this machine (ray start --address={address})" if host else ""
        return f"no answer within {ANSWER_S:g} s; expected Ray there{join}"
    if answer.returncode == 0:
        return ""
    return answer.stdout.decode(errors="replace").strip() or "nothing there that speaks Ray's protocol"


@contextlib.contextmanager
def join_cluster(address: str, workers: int) -> Iterator[Any]:
    """The module ray, connected to the cluster at auto or HOST:PORT, or to a new one here of `workers` CPUs.

    A new cluster is stopped at the end, another only left. Where the calling program is connected already, that
    connection is used and kept. InputError where the cluster cannot be joined, RunFailure where none can be started.
    """
    with _environment(ENVIRONMENT):
        import ray
    if ray.is_initialized():
        yield ray
        return
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    with contextlib.ExitStack() as stack:
        if address:
            options |= {"address": address}
        else:
            options |= {"address": "local", "num_cpus": workers, "include_dashboard": False}
            parent = tempfile.gettempdir()
            folder = tempfile.mkdtemp(
                prefix="egrl-ray-", dir=parent if len(parent) <= LONGEST_FOLDER else "/tmp"
            )
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            options |= {"_temp_dir": folder}
        stack.enter_context(_silent(ray))
        stack.callback(ray.shutdown)
        try:
            with _environment({**ENVIRONMENT, **({} if address else _paths())}), _own_sigterm():
                ray.init(**options)
        except (OSError, RuntimeError, ValueError) as error:
            reason = " ".join(str(error).split())
            if address:
                raise InputError(f"--ray-address {address}: expected a Ray cluster: {reason}") from error
            raise RunFailure(f"Ray could not start a cluster of {workers} CPUs here: {reason}") from error
        yield ray


def _paths() -> dict[str, str]:
    """Where processes on this machine find the modules that this process finds."""
    return {"PYTHONPATH": os.pathsep.join(entry or os.getcwd() for entry in sys.path)}


@contextlib.contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _own_sigterm() -> Iterator[None]:
    """Ray sets a handler of SIGTERM; what a SIGTERM does is the caller's to say."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM) or signal.SIG_DFL
    try:
        yield
    except SystemExit as ended:  # by Ray's handler, in the second before this one takes its place
        raise KeyboardInterrupt from ended
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _silent(ray: Any) -> Iterator[None]:
    """Ray reports dead workers and nodes on stdout, whatever `log_to_driver` says; not within this context.

    There is no setting for it: a function of Ray's own is replaced (a test sees whether that still works).
    """
    module = ray._private.worker
    before = module.print_to_stdstream
    module.print_to_stdstream = lambda *unused, **also_unused: None
    try:
        yield
    finally:
        module.print_to_stdstream = before
