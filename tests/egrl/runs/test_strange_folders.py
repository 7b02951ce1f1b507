"""No run folder makes code run that the user did not name: whoever it is from, it only says what it needs."""

from __future__ import annotations

import shlex
import shutil
import socket
import tomllib
from pathlib import Path

import pytest
import tomli_w
from commands import refuse
from plugged import run_here

import egrl
from egrl.cli.main import main
from egrl.core.interrupts import Interrupted
from egrl.methods.es import EsConfig
from egrl.runs.config import RunConfig, RunOptions
from egrl.runs.resume import code_flags, nothing_left
from policies.network import NetworkConfig
from policies.store import load_policy, save_policy


@pytest.fixture(scope="module")
def strange(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run folders that name code in files: `method`, `problem` and `both`, of a run that has policies."""
    folder = tmp_path_factory.mktemp("strange") / "here"
    folder.mkdir()
    small = [
        "--set",
        "method.network.width=8",
        "--set",
        "method.network.depth=2",
        "--set",
        "method.network.attention_heads=2",
    ]
    run = [
        "run",
        "--workload",
        "alexnet",
        "--method",
        "es",
        "--gens",
        "1",
        "--quiet",
        "--out",
        "plain",
        *small,
    ]
    ((code, _, err),) = run_here([run], folder)
    assert code == 0, err
    (folder / "evil.py").write_text("from pathlib import Path\nPath('harm').touch()\n", encoding="utf-8")
    for name, kinds in (("method", ["method"]), ("problem", ["problem"]), ("both", ["method", "problem"])):
        copy = shutil.copytree(folder / "plain", folder / name)
        config = tomllib.loads((copy / "config.toml").read_text(encoding="utf-8"))
        config["run"] |= dict.fromkeys(kinds, "evil:X")
        (copy / "config.toml").write_text(tomli_w.dumps(config), encoding="utf-8")
    copy = shutil.copytree(folder / "plain", folder / "network")
    config = tomllib.loads((copy / "config.toml").read_text(encoding="utf-8"))
    config["method"]["network"]["name"] = "evil:X"
    (copy / "config.toml").write_text(tomli_w.dumps(config), encoding="utf-8")
    for path in (copy / "policies").iterdir():
        policy = load_policy(path)
        named = {**policy.metadata["config"], "name": "evil:X"}
        save_policy(path, policy.weights, {**policy.metadata, "config": named})
    return folder


@pytest.mark.slow
def test_no_network_in_a_folder_is_imported_unless_the_user_names_it(strange):
    named = ["--set", "method.network.name=evil:X"]
    policy = str(next((strange / "network" / "policies").iterdir()))
    cases = [
        (
            ["run", "--resume", "network", "--gens", "2"],
            "config.toml: expected --set method.network.name=evil:X",
        ),
        (
            ["run", "--resume", "plain", "--gens", "2", *named],
            "--set method.network.name=evil:X: expected none",
        ),
        (
            ["run", "--resume", "network", "--gens", "2", *named, "--set", "method.sigma=0.1"],
            "--set method.sigma=0.1: expected nothing but method.network.name=evil:X",
        ),
        (
            ["run", "--config", "network/config.toml", "--out", "x"],
            "expected --set method.network.name=evil:X",
        ),
        (
            ["transfer", "network", "--workload", "vgg16"],
            "expected --set method.network=evil:X, which was not",
        ),
        (
            ["transfer", "network", "--workload", "vgg16", "--finetune", "21"],
            "network: expected --set method.network.name=evil:X",
        ),
        (
            [
                "run",
                "--workload",
                "alexnet",
                "--method",
                "es",
                "--init",
                policy,
            ],
            "--init: network.name: expected 'graph_unet' as it is set here, found 'evil:X'",
        ),
    ]
    told = run_here([argv for argv, _ in cases], strange)
    for (argv, words), (code, out, err) in zip(cases, told, strict=True):
        assert (code, out) == (2, ""), (argv, err)
        assert err.count("\n") == 1, argv
        assert words in err, (argv, err)
    assert not (strange / "harm").exists()
    again = shlex.split(told[0][2].strip().rpartition(": ")[2])[1:]
    assert again == ["run", "--resume", "network", *named]
    told = run_here(
        [
            ["transfer", "network", "--workload", "vgg16", "--set", "method.network=evil:X"],
            [*again, "--gens", "2"],
        ],
        strange,
    )
    for code, _, err in told:
        assert (code, err.count("\n")) == (2, 1), err
        assert "expected X in" in err, err  # the user named it: it was imported, and has no X
    (strange / "harm").unlink()


@pytest.mark.slow
def test_no_folder_makes_code_run_that_the_user_did_not_name(strange):
    both = "config.toml: expected --method evil:X --problem evil:X, which was not given: "
    problem = (
        "config.toml: expected --problem evil:X, which was not given: code in a file is imported only if"
    )
    cases = [
        (
            ["run", "--resume", "method", "--gens", "2"],
            "config.toml: expected --method evil:X, which was not given",
        ),
        (["run", "--resume", "problem", "--gens", "2"], problem),
        (["run", "--resume", "both", "--gens", "2"], both),
        (
            ["run", "--resume", "both", "--problem", "climb:X"],
            "--problem: expected 'evil:X' as in both/config.toml",
        ),
        (
            ["run", "--resume", "plain", "--method", "evil:X"],
            "--method: expected 'es' as in plain/config.toml",
        ),
        (["plot", "umap", "problem", "-o", "x.png"], problem),
        (
            ["plot", "curves", "plain", "--problem", "evil:X", "-o", "x.png"],
            "--problem: expected 'nnpi' as in",
        ),
        (["allocate", "problem"], problem),
        (["export", "problem", "-o", "x.csv"], problem),
        (["transfer", "problem", "--workload", "vgg16"], problem),
        (
            ["transfer", "method", "--workload", "vgg16", "--finetune", "21"],
            "method: expected --method evil:X",
        ),
    ]
    told = run_here([argv for argv, _ in cases], strange)
    for (argv, words), (code, out, err) in zip(cases, told, strict=True):
        assert (code, out) == (2, ""), (argv, err)
        assert err.count("\n") == 1, argv
        assert words in err, argv
    told = run_here(
        [
            ["plot", "curves", "method", "problem", "both", "-o", "curves.png"],
            ["plot", "umap", "method", "-o", "x.png"],
            ["transfer", "method", "--workload", "vgg16"],
            ["allocate", "method"],
        ],
        strange,
    )
    assert told[0][0] == told[2][0] == told[3][0] == 0
    assert not (strange / "harm").exists()


@pytest.mark.slow
def test_no_folder_makes_a_command_run_that_the_user_did_not_give(strange):
    command = "sh -c 'touch harm'"
    copy = shutil.copytree(strange / "plain", strange / "board")
    config = tomllib.loads((copy / "config.toml").read_text(encoding="utf-8"))
    config["run"]["evaluator"] = command
    (copy / "config.toml").write_text(tomli_w.dumps(config), encoding="utf-8")
    resume = ["run", "--resume", "board", "--gens", "2"]
    again = ["run", "--config", "board/config.toml", "--out", "x", "--set", "method.sigma=0.1"]
    told = run_here(
        [resume, again, ["evaluate", "board"], ["plot", "curves", "board", "-o", "x.png"]], strange
    )
    lines = []
    for code, out, err in told[:2]:
        assert (code, out, err.count("\n")) == (2, "", 1), err
        lines.append(shlex.split(err.strip().rpartition(": ")[2]))
    assert lines[0] == ["egrl", *resume, "--evaluator", command]
    assert lines[1][-4:] == ["--set", "method.sigma=0.1", "--evaluator", command]
    assert told[2][0] == told[3][0] == 0, told
    assert not (strange / "harm").exists()
    run_here([[*resume, "--evaluator", command]], strange)
    assert (strange / "harm").exists()
    (strange / "harm").unlink()


def test_hints_to_go_on_name_the_code(tmp_path):
    def needed(network="graph_unet", **options):
        return code_flags(
            RunConfig(RunOptions("9", **options), None, EsConfig(network=NetworkConfig(network)))
        )

    flags = ["--method", "climb:HillClimber", "--problem", "balance:Balance"]
    assert needed(problem="balance:Balance", method="climb:HillClimber") == flags
    assert needed(evaluator="python board.py") == ["--evaluator", "python board.py"]
    assert needed(evaluator="python:mine.board") == []
    assert needed("gat") == []
    named = ["--set", "method.network.name=own:Net"]
    assert needed("own:Net") == named
    again = str(Interrupted(tmp_path, 3, flags=["--evaluator", "python board.py"]))
    assert again.endswith("--evaluator 'python board.py'")
    hint = " ".join(["egrl run --resume", str(tmp_path), *flags])
    assert str(Interrupted(tmp_path, 3, flags=flags)).endswith(f"go on with: {hint}")
    config = RunConfig(RunOptions("9", evals=21), None, EsConfig(network=NetworkConfig("own:Net")))
    hint = " ".join(["egrl run --resume", str(tmp_path), *named, "--evals 42"])
    assert nothing_left(config, "budget", tmp_path).endswith(f"goes on: {hint}")


@pytest.mark.slow
def test_what_the_user_names_again_is_imported(strange):
    told = run_here([["run", "--resume", "method", "--method", "evil:X"]], strange)
    assert "expected X in evil.py, found none" in told[0][2]
    assert (strange / "harm").exists()


def test_no_folder_joins_a_cluster_that_the_user_did_not_name(tmp_path, capsys):
    run = tmp_path / "run"
    egrl.search("alexnet", method="random", gens=1, out=run, quiet=True)
    with socket.create_server(("127.0.0.1", 0)) as cluster:
        address = f"127.0.0.1:{cluster.getsockname()[1]}"
        config = tomllib.loads((run / "config.toml").read_text(encoding="utf-8"))
        config["run"] |= {"executor": "ray", "ray_address": address}
        (run / "config.toml").write_text(tomli_w.dumps(config), encoding="utf-8")
        needed = f"config.toml: expected --ray-address {address}, which was not given: a cluster in a file is joined"
        for argv in (
            ["run", "--resume", str(run), "--gens", "2"],
            ["run", "--config", str(run / "config.toml"), "--out", str(tmp_path / "again")],
        ):
            line = refuse(capsys, argv)
            assert needed in line
            assert line.endswith(f" --ray-address {address}\n")
        shutil.copytree(run, tmp_path / "copy")
        with egrl.Search(resume=run) as search:
            assert search.ask(limit=1) is not None
        cluster.settimeout(0.0)
        with pytest.raises(BlockingIOError):
            cluster.accept()
    here = ["run", "--resume", str(tmp_path / "copy"), "--gens", "2", "--executor", "local", "--quiet"]
    assert main(here) == 0


def test_this_machines_cluster_is_the_users_own():
    options = RunOptions("9", executor="ray", ray_address="auto")
    assert code_flags(RunConfig(options, None, EsConfig())) == []
    named = RunConfig(RunOptions("9", executor="ray", ray_address="head:1"), None, EsConfig())
    assert code_flags(named) == ["--ray-address", "head:1"]
