"""What TorchRec's planner makes of proposer and partitioner, and the command; most of it needs TorchRec."""

from __future__ import annotations

import importlib.util
import json
import logging

import pytest
from commands import refuse

from egrl.cli.main import main
from egrl_torchrec.commands import INSTALL

INSTALLED = importlib.util.find_spec("torchrec") is not None
needs_torchrec = [
    pytest.mark.skipif(not INSTALLED, reason=INSTALL),
    pytest.mark.filterwarnings("ignore"),  # of TorchRec and of what it imports
    pytest.mark.slow,
]
GIB = 2**30
TABLES = [
    {"name": "users", "rows": 4_000_000, "dim": 128, "pooling": [1.0]},
    {"name": "goods", "rows": 9_000_000, "dim": 64, "pooling": [20.0, 3.0]},
    {"name": "words", "rows": 50_000, "dim": 128, "pooling": [60.0]},
    {"name": "days", "rows": 366, "dim": 16, "pooling": [2.0]},
]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "tables.json"
    path.write_text(json.dumps({"tables": TABLES}))
    return path


@pytest.fixture
def built(file):
    """Builds a planner of four ranks on two hosts."""
    from torchrec.distributed.planner import Topology

    from egrl_torchrec import tables

    read = tables.read(file)

    def build(hbm_gib=4.0, **parts):
        topology = Topology(4, "cuda", hbm_cap=int(hbm_gib * GIB), local_world_size=2)
        return tables.planner_of(read, topology, 4096, 0.1, **parts), read

    return build


class TestPlanner:
    pytestmark = needs_torchrec

    def test_the_plan_is_rated_as_said_and_better_than_the_default(self, built, caplog):
        from egrl_torchrec import Partitioner, Proposer
        from egrl_torchrec.tables import planned

        planner, tables = built(proposer=(proposer := Proposer(10.0)), partitioner=Partitioner())
        with caplog.at_level(logging.INFO, "egrl_torchrec"):
            plan, rating = planned(planner, tables)
        assert rating == pytest.approx(proposer.solution.rating)
        assert proposer.solution.bound <= rating * (1 + 1e-9)
        assert proposer.solution.gap < 1e-3
        assert f"rated {rating:.5g} by TorchRec's model, at most 0.0" in caplog.text
        assert rating <= planned(built()[0], tables)[1]
        assert {option.name for option in plan} == {table["name"] for table in TABLES}
        assert planned(planner, tables)[1] == rating  # a proposer may be used again

    def test_each_memory_and_place_is_kept_where_memory_is_scarce(self, built):
        from egrl_torchrec import Partitioner, Proposer
        from egrl_torchrec.tables import document, planned

        planner, tables = built(1.7, proposer=Proposer(10.0), partitioner=Partitioner())
        plan, _ = planned(planner, tables)
        ranks = document(plan, 4)["ranks"]
        assert max(rank["hbm_bytes"] for rank in ranks) <= 0.9 * 1.7 * GIB
        for option in plan:
            on = [shard.rank for shard in option.shards]
            if option.partition_by == "uniform":
                assert on == [0, 1, 2, 3]
            if option.partition_by == "host":
                assert len({rank // 2 for rank in on}) == 1

    def test_constraints_of_the_planner_are_kept(self, file, built):
        from egrl_torchrec import Partitioner, Proposer
        from egrl_torchrec.tables import planned, read

        rows = [
            {**TABLES[0], "sharding_types": ["row_wise"]},
            {**TABLES[1], "sharding_types": ["grid_shard"], "min_partition": 32},
            {**TABLES[2], "sharding_types": ["table_column_wise"], "min_partition": 32},
            {**TABLES[3], "compute_kernels": ["fused_uvm"]},
        ]
        file.write_text(json.dumps({"tables": rows}))
        from torchrec.distributed.planner import Topology

        from egrl_torchrec import tables

        topology = Topology(4, "cuda", hbm_cap=4 * GIB, local_world_size=2)
        parts = {"proposer": Proposer(10.0), "partitioner": Partitioner()}
        plan, _ = planned(tables.planner_of(read(file), topology, 4096, 0.1, **parts), read(file))
        by_name = {option.name: option for option in plan}
        assert by_name["users"].sharding_type == "row_wise"
        assert by_name["days"].compute_kernel == "fused_uvm"
        grid = [shard.rank for shard in by_name["goods"].shards]
        assert sorted(map(tuple, (grid[:2], grid[2:]))) == [(0, 1), (2, 3)]
        words = by_name["words"].shards
        assert len(words) == 4
        assert len({shard.rank // 2 for shard in words}) == 1

    def test_the_partitioner_lays_what_others_propose(self, built):
        from torchrec.distributed.planner.partitioners import GreedyPerfPartitioner
        from torchrec.distributed.planner.proposers import GreedyProposer

        from egrl_torchrec import Partitioner, Proposer
        from egrl_torchrec.tables import planned

        planner, tables = built(proposer=GreedyProposer(), partitioner=Partitioner(0.05))
        alone = planned(planner, tables)[1]
        planner, _ = built(proposer=GreedyProposer(), partitioner=GreedyPerfPartitioner())
        assert alone <= planned(planner, tables)[1] * (1 + 1e-3)
        planner, _ = built(proposer=Proposer(5.0), partitioner=GreedyPerfPartitioner())
        assert planned(planner, tables)[1] >= alone * 0.5

    def test_what_does_not_fit_is_the_planners_error(self, built):
        from torchrec.distributed.planner.types import PlannerError

        from egrl_torchrec import Partitioner, Proposer
        from egrl_torchrec.tables import planned

        proposer = Proposer(5.0)
        planner, tables = built(0.01, proposer=proposer, partitioner=Partitioner())
        planner._topology.devices[0].storage.ddr = 0
        for device in planner._topology.devices:
            device.storage.ddr = 0
        with pytest.raises(PlannerError):
            planned(planner, tables)
        assert proposer.solution.plan is None


class TestCommand:
    pytestmark = needs_torchrec

    def test_the_first_line_has_rating_and_bound_and_the_plan_is_written(self, file, tmp_path, capsys):
        output = tmp_path / "plan.json"
        argv = ["torchrec", str(file), "--world", "4", "--hosts", "2", "--hbm", "4GiB", "--seconds", "5"]
        assert main([*argv, "--compare", "-o", str(output), "--quiet"]) == 0
        told = capsys.readouterr()
        lines = told.out.splitlines()
        assert told.err == ""
        assert lines[0].startswith("rated ")
        assert "% above the best (proven bound " in lines[0]
        assert lines[1].startswith("TorchRec's own proposers: ")
        assert lines[-1] == f"written: {output}"
        plan = json.loads(output.read_text())
        assert set(plan["tables"]) == {table["name"] for table in TABLES}
        assert f"to {max(rank['cost'] for rank in plan['ranks']):.5g}; at most" in told.out
        for name, table in plan["tables"].items():
            rows = next(t["rows"] for t in TABLES if t["name"] == name)
            if table["sharding_type"] != "data_parallel":
                columns = {tuple(shard["offset"]) for shard in table["shards"]}
                assert len(columns) == len(table["shards"])
            assert all(shard["size"][0] <= rows for shard in table["shards"])
        assert main([*argv, "--json", "--quiet"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["rating"] >= found["bound"] * (1 - 1e-9)

    def test_what_is_wrong_in_a_file_or_too_much_ends_in_a_line(self, file, capsys):
        argv = ["torchrec", str(file), "--world", "4", "--hbm", "4GiB", "--quiet"]

        def with_first(**fields):
            file.write_text(json.dumps({"tables": [{**TABLES[0], **fields}, *TABLES[1:]]}))

        with_first(rows=0)
        refuse(capsys, argv, "tables.0.rows", "greater than 0")
        with_first(size=3)
        refuse(capsys, argv, "tables.0.size")
        with_first(name="goods")
        refuse(capsys, argv, "two tables 'goods'")
        with_first(name="items")
        refuse(capsys, argv, "tables: expected other names", "'items' already exists")
        with_first(sharding_types=["by_row"])
        refuse(capsys, argv, "'users', sharding_types: expected one of", "row_wise", "found 'by_row'")
        with_first(type="fp31")
        refuse(capsys, argv, "'users', type: expected one of fp32")
        with_first(compute_kernels=["key_value"], sharding_types=["data_parallel"])
        refuse(capsys, argv, "No available sharding type and compute kernel combination")
        with_first(rows=10**12)
        refuse(capsys, argv, "no plan: the tables do not fit into the memory of all ranks")
        file.write_text("{}")
        refuse(capsys, argv, "tables: Field required")


@pytest.mark.skipif(INSTALLED, reason="TorchRec is installed")
def test_without_torchrec_the_command_says_how_to_install_it(file, capsys):
    refuse(
        capsys,
        ["torchrec", str(file), "--world", "4", "--hbm", "4GiB"],
        "pip install --no-deps torchrec==1.8.0",
    )


def test_flags_that_cannot_be_are_refused(file, capsys, tmp_path):
    argv = ["torchrec", str(file), "--world", "6", "--hbm"]
    refuse(capsys, [*argv, "many"], "--hbm: expected bytes such as 80GiB, found 'many'")
    refuse(capsys, [*argv, "1GiB", "--hosts", "4"], "--hosts: expected a divisor of --world 6, found 4")
    refuse(capsys, [*argv, "1GiB", "--seconds", "nan"], "--reserve, --seconds")
    refuse(capsys, [*argv, "1GiB", "-o", str(tmp_path / "plan.txt")], "expected a file ending in .json")
