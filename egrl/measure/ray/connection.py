"""Joining a Ray cluster, or starting one here: within `joined`, Ray is connected and says nothing.

Nothing about a run is reported to anyone (Ray's usage statistics are off), and no folder is uploaded.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from egrl.core.failure import RunFailure
from workloads.errors import InputError

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


def _why_not(address: str) -> str:
    """Why the cluster at auto or HOST:PORT cannot be joined; empty where it can."""
    host, _, port = address.rpartition(":")
    if host:
        try:
            socket.create_connection((host.strip("[]"), int(port)), ANSWER_S / 2).close()
        except OSError as error:
            return error.strerror or str(error)
    probe = [sys.executable, "-m", "egrl.measure.ray.probe", address]
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
