"""A search over Vela's options, with a compiler that is called as Vela is: what it finds, keeps, bears and refuses."""

from __future__ import annotations

import json
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from commands import refuse

from egrl.cli.main import main
from egrl_vela import compiler, report, written
from egrl_vela.compiler import DEFAULT, Outcome, Setting, Target
from egrl_vela.search import Found, search
from egrl_vela.written import Layer, Written
from tiny_models import CUSTOM, EXP, convolutions, program
from workloads.errors import InputError

KIB = 1024
DEVICE = ["--accelerator", "ethos-u65-256", "--system-config", "High", "--memory-mode", "Dedicated"]


class Fake:
    """A folder with a compiler, a model, and a command that searches."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.command = folder / "bin" / "vela"
        self.command.parent.mkdir()
        script = self.command.with_name("fake_vela.py")
        shutil.copy(Path(__file__).with_name("fake_vela.py"), script)
        self.command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -E "{script}" "$@"\n')
        self.command.chmod(0o755)
        self.put("program.tflite", program((CUSTOM, "ethos-u"), (EXP, "")))
        self.behave()
        self.model = folder / "net.tflite"
        self.model.write_bytes(b"a model")

    def put(self, name: str, data: bytes) -> None:
        (self.command.parent / name).write_bytes(data)

    def behave(self, **behaviour: Any) -> None:
        (self.command.parent / "behaviour.json").write_text(json.dumps(behaviour))

    def argv(self, *more: str) -> list[str]:
        paths = ["-o", str(self.folder / "fast.tflite"), "--out", str(self.folder / "runs")]
        return ["vela", str(self.model), *DEVICE, *paths, "--vela", str(self.command), "--quiet", *more]

    def calls(self) -> list[str]:
        file = self.command.parent / "calls.txt"
        return file.read_text().splitlines() if file.exists() else []

    def searched(self, capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
        """The document of a search that ends well."""
        capsys.readouterr()
        assert main(self.argv("--json", *more)) == 0
        return json.loads(capsys.readouterr().out)


@pytest.fixture
def fake(tmp_path):
    return Fake(tmp_path)


def made(cycles: float, sram_kib: float = 300, digest: str = "", outside: tuple[str, ...] = ()) -> Written:
    traffic = dict.fromkeys(written.MEMORIES, 0)
    size = round(sram_kib * KIB)
    return Written(cycles, size, 384 * KIB, traffic, list(outside), digest or str(cycles), [])


class Landscape:
    """Stands for a `Runner` without processes: a function of limit and flags."""

    def __init__(self, cycles, flags=(), sram_kib=None):
        self.cycles, self.outcomes, self.sram_kib = cycles, {}, sram_kib
        self.target = Target("net.tflite", "a", "s", "m")
        self.vela = compiler.Vela("vela", "5.2.0", tuple(flags))

    def run(self, settings):
        for setting in settings:
            limit = (setting.limit_bytes or 384 * KIB) / KIB
            found, used = self.cycles(limit, setting.flags), self.sram_kib or limit * 0.95
            self.outcomes[setting] = Outcome(None, "no") if found is None else Outcome(made(found, used))


def best_of(runner: Landscape, compiles: int) -> tuple[float, Setting]:
    found = search(runner, compiles, lambda found: None)  # type: ignore[arg-type]
    assert found is not None
    assert len(runner.outcomes) <= compiles
    setting = found.ranked()[0]
    return runner.outcomes[setting].written.cycles, setting


def test_the_first_line_says_what_was_gained_and_what_is_written_is_the_best_program(fake, capsys):
    found = fake.searched(capsys, "--compiles", "16")
    assert main(fake.argv("--compiles", "16")) == 0
    told = capsys.readouterr().out.splitlines()
    before, after = found["default"]["cycles"], found["best"]["cycles"]
    assert before == 8e6
    assert after < 6.11e6 * 0.95
    assert told[0].startswith(
        f"{before / after:.2f}x fewer cycles than Vela's default, by Vela's estimate (8.00 M -> "
    )
    assert "SRAM 2" in told[0]
    assert " of 384 KiB, DRAM traffic -2" in told[0]
    assert told[1] == report.CAVEAT
    # Programs of the fake end with their cycles.
    assert str(after) in (fake.folder / "fast.tflite").read_bytes()[-60:].decode()
    assert told[-1] == f"written: {fake.folder / 'fast.tflite'}"
    assert found["command"] in "\n".join(told)


def test_the_table_has_the_layers_that_change_most_before_and_after(fake, capsys):
    found = fake.searched(capsys, "--compiles", "3")
    assert [(row["layer"], row["op"]) for row in found["layers"]] == [
        ("first;fused", "Conv2D"),
        ("second", "Conv2D"),
    ]
    assert sum(row["after"] for row in found["layers"]) == found["best"]["cycles"]
    assert main(fake.argv("--compiles", "3", "--layers", "1")) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[2:5]]
    assert rows[0] == ["layer", "op", "cycles", "before", "after", "saved"]
    assert rows[1][:3] == ["second", "Conv2D", "6,000,000"]
    assert " ".join(rows[2]).startswith("1 other layer that changed")


def test_the_printed_command_writes_the_same_program_without_egrl(fake, capsys, monkeypatch):
    import shlex
    import subprocess

    found = fake.searched(capsys, "--compiles", "8")
    (fake.folder / "vela-out").mkdir()
    subprocess.run(shlex.split(found["command"]), cwd=fake.folder, check=True)
    again = fake.folder / "vela-out" / "net_vela.tflite"
    assert again.read_bytes() == (fake.folder / "fast.tflite").read_bytes()
    monkeypatch.setenv("PATH", str(fake.command.parent))
    assert fake.searched(capsys, "--compiles", "8")["command"].startswith("vela ")


def test_the_same_command_goes_on_and_compiles_only_what_is_new(fake, capsys):
    fake.searched(capsys, "--compiles", "5")
    assert len(fake.calls()) == 5 + 1  # the best once more, to be written
    whole = fake.searched(capsys, "--compiles", "9", "--jobs", "3")
    assert len(fake.calls()) == 9 + 3  # and the default, which was read
    assert fake.searched(capsys, "--compiles", "9") == whole
    assert len(fake.calls()) == 9 + 5
    fake.behave(version="5.3.0")
    fake.searched(capsys, "--compiles", "2")
    assert len(fake.calls()) == 9 + 5 + 3


def test_compiles_that_fail_are_failed_evaluations(fake, capsys):
    fake.behave(fail={"--optimise=Size": "RuntimeError: out of luck", "--disable-cascading": "no"})
    found = fake.searched(capsys, "--compiles", "12")
    assert found["failures"] == {"out of luck": 1, "no": 1}
    assert found["speedup"] > 1.3
    assert main(fake.argv("--compiles", "12")) == 0
    assert "12 compiles, 2 of no use: 1 x out of luck; 1 x no" in capsys.readouterr().out
    assert len(fake.calls()) == 12 + 3


@pytest.mark.slow
def test_a_compile_that_hangs_is_ended_and_tried_again_only_with_more_time(fake, capsys):
    fake.searched(capsys, "--compiles", "4")  # so that only the one that hangs is waited for
    fake.behave(hang=["--optimise=Size"])
    found = fake.searched(capsys, "--compiles", "5", "--timeout", "5")
    assert found["failures"] == {"ended after 5 s": 1}
    before = len(fake.calls())
    assert fake.searched(capsys, "--compiles", "5", "--timeout", "5") == found
    assert len(fake.calls()) == before + 2
    fake.behave()
    assert not fake.searched(capsys, "--compiles", "5", "--timeout", "60")["failures"]


def test_programs_with_other_ops_on_the_cpu_or_too_much_sram_are_of_no_use(fake, capsys):
    fake.behave(program={"--disable-cascading": "other.tflite"})
    fake.put("other.tflite", program((CUSTOM, "ethos-u"), (EXP, ""), (EXP, "")))
    found = fake.searched(capsys, "--compiles", "8")
    assert found["failures"] == {"runs other ops on the CPU than the default": 1}
    assert found["best"]["outside"] == found["default"]["outside"] == [str(EXP)]
    fake.behave(over_kib=20, version="6.0")
    found = fake.searched(capsys, "--compiles", "8")
    assert found["failures"]["uses more SRAM than there is"] > 0
    assert found["best"]["sram_bytes"] <= found["sram_limit_bytes"] == 384 * KIB
    assert main(fake.argv("--compiles", "8")) == 0
    assert "Vela's default, which does not fit" in capsys.readouterr().out
    fake.behave(over_kib=400, version="7.0")
    refuse(capsys, fake.argv("--compiles", "4"), "none of 4 programs fits; the default uses ")


def test_the_device_may_have_less_sram_than_the_memory_mode(fake, capsys):
    found = fake.searched(capsys, "--compiles", "6", "--sram", str(288 * KIB))
    assert found["sram_limit_bytes"] == 288 * KIB
    assert all(f"--arena-cache-size={288 * KIB}" in call for call in fake.calls()[:1])
    assert found["best"]["sram_bytes"] <= 288 * KIB


def test_what_cannot_be_compiled_or_is_not_vela_ends_in_a_line(fake, capsys, monkeypatch):
    fake.behave(fail={"--accelerator-config": "Invalid system config 'High'"})
    refuse(capsys, fake.argv(), "net.tflite: Vela's default fails: Invalid system config 'High'")
    raised = "ethosu.vela.errors.CliOptionError: 'Error: Incorrect argument to CLI option'"
    fake.behave(fail={"net.tflite": raised}, version="5.2.1")
    refuse(capsys, fake.argv(), "Vela's default fails: Incorrect argument to CLI option\n")
    fake.behave(missing=["net_summary_High.csv"], version="5.3")
    refuse(capsys, fake.argv(), "Vela's default fails: Vela wrote no *_summary_*.csv")
    fake.behave(scale=0, version="5.3.1")
    refuse(capsys, fake.argv(), "Vela's default fails: it runs no op on the NPU")
    fake.put("program.tflite", b"no model")
    fake.behave(version="5.4")
    refuse(capsys, fake.argv(), "Vela's default fails: the program is no TensorFlow Lite model")
    fake.behave(version="hello")
    refuse(capsys, fake.argv(), "expected Arm's Vela, found a command that answers otherwise", "pip install")
    fake.behave()
    refuse(capsys, [*fake.argv(), "--vela", "no-such"], "--vela no-such: expected a command", "pip install")
    refuse(capsys, fake.argv("-o", str(fake.model)), "expected another file than the model")
    refuse(capsys, fake.argv("-o", str(fake.folder / "fast.bin")), "expected a file ending in .tflite")
    refuse(capsys, fake.argv("--sram", "1000"), "--sram: expected a multiple of 16 bytes")
    refuse(capsys, fake.argv("--timeout", "nan"), "--timeout: expected seconds above 0")
    refuse(
        capsys, ["vela", "none.tflite", *fake.argv()[2:]], "none.tflite: expected a model of TensorFlow Lite"
    )
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "executable", str(fake.folder / "python"))
    bare = fake.argv()
    del bare[bare.index("--vela") : bare.index("--vela") + 2]
    refuse(capsys, bare, "Vela is not installed: pip install ethos-u-vela")


def test_a_result_on_disk_that_is_none_is_refused(fake, capsys):
    found = fake.searched(capsys, "--compiles", "1")
    (kept,) = Path(found["folder"]).glob("*.json")
    document = json.loads(kept.read_text())
    for text in ("{", json.dumps({**document, "written": 3}), json.dumps({**document, "version": 2})):
        kept.write_text(text)
        refuse(
            capsys, fake.argv("--compiles", "1"), str(kept.name), "expected a compile's result", "delete it"
        )


def test_a_program_that_differs_when_it_is_compiled_again_is_not_handed_out(fake, capsys):
    fake.searched(capsys, "--compiles", "1")
    (fake.folder / "fast.tflite").unlink()
    fake.behave(over_kib=1)
    refuse(capsys, fake.argv("--compiles", "1"), "another program for the same options", code=1)
    assert not (fake.folder / "fast.tflite").exists()


def test_a_default_on_disk_that_vela_does_not_give_is_not_believed(fake, capsys):
    found = fake.searched(capsys, "--compiles", "2")
    for path in Path(found["folder"]).glob("*.json"):
        document = json.loads(path.read_text())
        if document["options"] == "":
            document["written"]["cycles"] *= 3
            path.write_text(json.dumps(document))
    refuse(capsys, fake.argv("--compiles", "2"), "default gave, when compiled again: another program", code=1)


def test_paths_may_be_relative(fake, capsys, monkeypatch):
    monkeypatch.chdir(fake.folder)
    argv = [
        "vela",
        "net.tflite",
        *DEVICE,
        "-o",
        "fast.tflite",
        "--vela",
        "bin/vela",
        "--compiles",
        "2",
        "--quiet",
    ]
    assert main(argv) == 0
    assert (fake.folder / "fast.tflite").exists()
    assert len(list((fake.folder / "runs" / "vela").glob("net-*/*.json"))) == 2
    assert capsys.readouterr().out.endswith("written: fast.tflite\n")


def test_without_a_gain_the_default_is_written_and_said_to_be(fake, capsys):
    assert main(fake.argv("--compiles", "1")) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith(
        "no fewer cycles than Vela's default in 1 compile, by Vela's estimate (8.00 M); SRAM 372"
    )
    assert "again, without egrl" not in "\n".join(told)


def test_a_narrow_dip_beside_a_wide_one_is_found_within_the_compiles():
    assert best_of(Landscape(lambda limit, flags: 5e6 if 210 < limit < 225 else 6e6 + limit), 40)[0] == 5e6

    def slope(limit: float, flags: tuple[str, ...]) -> float:
        return 1e6 + abs(limit - 251.3) * 1e3

    assert best_of(Landscape(slope), 40)[0] < 1e6 + 1.5e3


def test_a_narrow_dip_at_the_end_of_one_wide_program_is_found():
    def edge(limit: float, flags: tuple[str, ...]) -> float:
        return 5e6 if limit > 201.7 else 4e6 if limit > 199 else 7e6

    assert best_of(Landscape(edge, sram_kib=380), 40)[0] == 4e6


def test_switches_are_combined_with_limits():
    flags = ("--a", "--b", "--optimise=Size")

    def both(limit: float, on: tuple[str, ...]) -> float:
        return (
            9e6
            - 1e6 * ("--a" in on)
            - 1e6 * ("--b" in on)
            - 1e6 * (limit < 300)
            + 3e6 * ("--optimise=Size" in on)
        )

    cycles, setting = best_of(Landscape(both, flags), 40)
    assert cycles == 6e6
    assert setting.flags == ("--a", "--b")


def test_one_program_again_and_again_is_not_searched_finer():
    runner = Landscape(lambda limit, flags: 1e6)
    found = search(runner, 60, lambda found: None)
    assert found is not None
    assert found.ranked()[0] != DEFAULT  # as fast with less SRAM
    assert len(runner.outcomes) < 20


def test_all_failing_but_the_default_ends():
    assert best_of(Landscape(lambda limit, flags: 1e6 if limit == 384 else None, ("--a",)), 40)[1] == DEFAULT


def test_the_other_core_is_tried_without_switches_that_it_does_not_know():
    flags = ("--disable-cascading", compiler.OTHER_CORES[0])
    runner = Landscape(lambda limit, on: 1e6 + limit - 1e5 * len(on), flags)
    best_of(runner, 40)
    for setting in runner.outcomes:
        assert set(setting.flags) != set(runner.vela.flags)
    u85 = Target("net.tflite", "ethos-u85-256", "s", "m")
    assert runner.vela.flags_for(u85) == ("--disable-cascading",)
    assert runner.vela.flags_for(runner.target) == runner.vela.flags


def test_a_memory_mode_without_a_limit_has_none_in_the_first_line():
    found = Found({DEFAULT: Outcome(made(9, 300))}, report.UNLIMITED)
    assert report.headline(found, found.default).endswith("; SRAM 300 KiB")


def test_layers_are_joined_by_name_op_and_number():
    rows = report.changes(
        [Layer("a", "Conv", 5), Layer("a", "Conv", 7), Layer("b", "Add", 1)],
        [Layer("b", "Add", 1), Layer("a", "Conv", 4), Layer("c", "Mul", 2)],
    )
    assert rows == [("a", "Conv", 5, 4), ("a", "Conv", 7, None), ("b", "Add", 1, 1), ("c", "Mul", None, 2)]


def test_ranked_are_programs_that_fit_the_fastest_first_then_the_smallest():
    outcomes = {
        DEFAULT: Outcome(made(9, 300)),
        Setting(16): Outcome(made(5, 200)),
        Setting(32): Outcome(made(5, 100)),
        Setting(48): Outcome(made(1, 400)),
        Setting(64): Outcome(None, "no"),
        Setting(80): Outcome(made(1, 100, outside=("3",))),
    }
    assert Found(outcomes, 384 * KIB).ranked() == [Setting(32), Setting(16), DEFAULT]


def test_ops_of_a_program_are_read_and_damaged_bytes_refused():
    data = program((CUSTOM, "ethos-u"), (EXP, ""), (200, ""))
    assert written.operators(data) == [written.NPU, str(EXP), "200"]
    assert written.operators(convolutions([8, 8, 8], 4)) == ["3", "3"]
    for length in range(0, len(data) - 1, 7):
        with suppress(written.Unreadable):
            written.operators(data[:length])
    with pytest.raises(written.Unreadable):
        written.operators(b"no model")


@pytest.mark.slow
def test_the_real_vela_compiles_a_tiny_network_with_less_sram(tmp_path, capsys):
    try:
        tool = compiler.find()
    except InputError:
        pytest.skip("needs Arm's Vela: pip install ethos-u-vela")
    model = tmp_path / "tiny.tflite"
    model.write_bytes(convolutions([16, 32, 32, 32, 32, 16], 48))
    argv = ["vela", str(model), "--accelerator", "ethos-u65-256", "--system-config", "Ethos_U65_High_End"]
    argv += ["--memory-mode", "Dedicated_Sram_384KB", "-o", str(tmp_path / "fast.tflite")]
    argv += ["--out", str(tmp_path / "runs"), "--compiles", "6", "--jobs", "2", "--quiet", "--json"]
    assert main(argv) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["vela"] == tool.version
    assert found["speedup"] >= 1.0
    assert 0 < found["best"]["sram_bytes"] <= found["sram_limit_bytes"] == 384 * KIB
    assert found["default"]["outside"] == []
    assert written.operators((tmp_path / "fast.tflite").read_bytes()) == [written.NPU]
    cycles = [row["before"] for row in found["layers"] if row["before"] is not None]
    assert sum(cycles) == pytest.approx(found["default"]["cycles"], rel=0.01)
    refuse(capsys, [*argv, "--memory-mode", "No_Such"], "Vela's default fails", "No_Such")
