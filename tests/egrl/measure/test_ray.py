"""Measuring on Ray: the same as in-process, whatever dies."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import measured
import numpy as np
import pytest

from egrl import api
from egrl.cli.main import main
from egrl.core.archive import proposals
from egrl.measure import local, ray_executor
from egrl.measure.ray_executor import RayCluster
from hwsim.mappings import sample_uniformly
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiConfig, NnpiProblem
from hwsim.problem import Evaluation
from workloads.errors import InputError, RunFailure
from workloads.load import load

pytest.importorskip("ray", reason="the extra `ray`")
ROOT = Path(__file__).parents[3]
RUN = ["run", "--workload", "alexnet", "--gens", "3", "--bound-seconds", "0"]


@pytest.fixture(scope="module")
def problem():
    return NnpiProblem(load("alexnet"), load_chip("nnpi"), NnpiConfig())


@pytest.fixture(scope="module")
def cluster():
    """A head that measures nothing and two nodes of one CPU, which go by the paths of this process."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        for name, value in ray_executor.ENVIRONMENT.items():
            patch.setenv(name, value)
        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        try:
            made.leaving = made.add_node(num_cpus=1)
            made.add_node(num_cpus=1)
            made.wait_for_nodes()
            yield made
        finally:
            made.shutdown()


def batch(problem, rows):
    keys = np.arange(rows, dtype=np.uint64)
    mapping = sample_uniformly(problem, keys)
    return proposals(mapping, "test").numbered(0), keys


def collect(where, rows):
    parts = []
    while sum(len(part) for part, _ in parts) < rows:
        parts += where.ready(0.5)
    parts.sort(key=lambda pair: pair[0].tickets[0])
    assert np.concatenate([part.tickets for part, _ in parts]).tolist() == list(range(rows))
    return Evaluation.concatenate([evaluation for _, evaluation in parts])


def assert_measured_as_here(problem, asked, keys, found):
    expected = problem.evaluate(asked.mapping, keys)
    for name in vars(expected):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def columns(folder):
    """metrics.csv without the seconds."""
    rows = [line.split(",") for line in (folder / "metrics.csv").read_text().splitlines()]
    clock = rows[0].index("seconds")
    return [row[:clock] + row[clock + 1 :] for row in rows]


@pytest.fixture
def on_cluster(cluster):
    """Opens an executor on the cluster, and closes it."""
    opened = []

    def open_(problem, workers=2):
        opened.append(RayCluster([problem], workers, cluster.address))
        return opened[-1]

    yield open_
    for entry in opened:
        entry.close()


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore:a mapping failed")  # of the second slice, which may come first
def test_what_a_node_cannot_measure_and_what_always_kills_end_in_one_line(problem, on_cluster, tmp_path):
    for wrong, error, message in (
        (
            measured.Changed(problem, tmp_path),
            RunFailure,
            r"node \S+ cannot measure: .*fingerprint \d+, found",
        ),
        (
            measured.Deadly(problem, tmp_path),
            RunFailure,
            r"Ray gave up measuring \(4 tries at most\): WorkerCrashed",
        ),
        (measured.Wrong(problem, tmp_path), ValueError, "^expected a board, received none$"),
    ):
        where = on_cluster(wrong)
        where.submit(*batch(problem, 2))
        with pytest.raises(error, match=message) as caught:
            collect(where, 2)
        assert "\n" not in str(caught.value)
        where.close()


@pytest.mark.slow
def test_another_version_of_egrl_on_a_node_ends_in_one_line(problem, on_cluster, monkeypatch):
    monkeypatch.setattr(ray_executor, "VERSION", "99.0")
    where = on_cluster(problem)
    where.submit(*batch(problem, 2))
    with pytest.raises(RunFailure, match=r"node \S+ cannot measure: expected egrl 99.0 there, found 0"):
        collect(where, 2)


def test_a_node_without_egrl_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "egrl.measure.ray_executor", None)
    node, reason = ray_executor._task()()
    assert node
    assert reason.startswith("expected egrl installed there: ")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["random", pytest.param("ea", marks=pytest.mark.exhaustive)])
def test_a_run_on_ray_equals_one_in_process(method, cluster, tmp_path, capfd):
    flags = [*RUN, "--method", method]
    assert main([*flags, "--quiet", "--out", str(tmp_path / "here")]) == 0
    there = ["--executor", "ray", "--ray-address", cluster.address, "--workers", "2", "--json"]
    assert main([*flags, *there, "--out", str(tmp_path / "ray")]) == 0
    assert json.loads(capfd.readouterr().out)["complete"]
    assert columns(tmp_path / "ray") == columns(tmp_path / "here")
    best = [(tmp_path / run / "best_mapping.json").read_bytes() for run in ("here", "ray")]
    assert best[0] == best[1]
    resumed = ["run", "--resume", str(tmp_path / "ray"), "--gens", "4", "--executor", "local", "--quiet"]
    assert main(resumed) == 0
    assert 'ray_address = ""' in (tmp_path / "ray" / "config.toml").read_text()


@pytest.mark.slow
def test_a_worker_killed_while_it_measures_changes_nothing_and_nothing_is_printed(
    problem, on_cluster, tmp_path, capfd
):
    where = on_cluster(measured.DiesOnce(problem, tmp_path))
    asked, keys = batch(problem, 21)
    where.submit(asked, keys)
    assert_measured_as_here(problem, asked, keys, collect(where, 21))
    assert (tmp_path / "died").exists()
    where.close()
    assert capfd.readouterr() == ("", "")


@pytest.mark.exhaustive
def test_a_node_removed_while_it_measures_changes_nothing(problem, cluster, on_cluster, tmp_path, capfd):
    """The last to use the cluster: it has a node less then."""
    where = on_cluster(measured.Waits(problem, tmp_path))
    asked, keys = batch(problem, 8)
    where.submit(asked, keys)
    while len(nodes := {path.name.split("-")[0] for path in tmp_path.iterdir()}) < 2:
        time.sleep(0.02)
    leaving = cluster.leaving.node_id
    (stays,) = nodes - {leaving}
    capfd.readouterr()
    cluster.remove_node(cluster.leaving, allow_graceful=False)
    (tmp_path / f"go-{stays}").touch()
    assert_measured_as_here(problem, asked, keys, collect(where, 8))
    assert [len(list(tmp_path.glob(f"{node}-*"))) for node in (leaving, stays)] == [1, 2]
    assert capfd.readouterr() == ("", "")


@pytest.mark.exhaustive
def test_without_an_address_a_cluster_is_started_here_says_nothing_and_is_stopped(tmp_path):
    argv = [sys.executable, "-m", "egrl", *RUN, "--executor", "ray", "--workers", "2", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": "/tmp"}
    done = subprocess.run(
        [*argv, "--method", "random", "--quiet", "--out", str(tmp_path / "run")],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["evaluations"] == 63


@pytest.mark.exhaustive
def test_an_address_without_a_cluster_ends_in_one_line(tmp_path, capsys):
    silent = socket.create_server(("127.0.0.1", 0))
    refused = socket.create_server(("127.0.0.1", 0))
    port = refused.getsockname()[1]
    refused.close()
    try:
        for address in (f"127.0.0.1:{silent.getsockname()[1]}", f"127.0.0.1:{port}"):
            begun = time.monotonic()
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(ray_executor, "ANSWER_S", 2.0)
                there = ["--executor", "ray", "--ray-address", address, "--out", str(tmp_path / "run")]
                assert main([*RUN, *there]) == 2
            assert time.monotonic() - begun < 60  # 30 times as long as an answer is waited for
            line = capsys.readouterr().err
            assert line.startswith(
                f"egrl: error: --ray-address {address}: expected a Ray cluster, found none: "
            )
            assert line.count("\n") == 1
            assert not (tmp_path / "run").exists()
    finally:
        silent.close()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--executor", "pool"], "--executor: expected one of local, ray, found 'pool'"),
        (["--ray-address", "auto"], "--ray-address auto: expected --executor ray, found local"),
        (
            ["--executor", "ray", "--ray-address", "ray://host:10001"],
            "expected auto or HOST:PORT, found 'ray://",
        ),
        (["--executor", "ray", "--ray-address", "host"], "expected auto or HOST:PORT, found 'host'"),
        (["--executor", "ray", "--ray-address", "host:70000"], "expected auto or HOST:PORT"),
    ],
)
def test_a_wrong_flag_is_answered_in_one_line(flags, words, tmp_path, capsys):
    assert main([*RUN, *flags, "--out", str(tmp_path / "run")]) == 2
    line = capsys.readouterr().err
    assert words in line
    assert line.count("\n") == 1


def test_a_sigterm_that_ray_takes_while_it_starts_is_an_interrupt():
    def start() -> None:  # as Ray does
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(number))
        signal.raise_signal(signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), ray_executor._own_sigterm():
        start()
    assert signal.getsignal(signal.SIGTERM) is before


def test_where_ray_is_missing_the_extra_is_named(tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "ray" else find(name, *rest)
    )
    with pytest.raises(InputError, match=r"pip install 'egrl\[ray\]'"):
        api.search("alexnet", out=tmp_path / "run", executor="ray", gens=1)
    assert not (tmp_path / "run").exists()


@pytest.mark.exhaustive
def test_without_flags_measuring_is_in_process(problem):
    assert isinstance(local.build([problem], 1), local.InProcess)
