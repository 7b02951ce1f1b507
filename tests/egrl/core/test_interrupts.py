"""Interrupts that come as what they are, and as other errors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from egrl.cli import main as cli
from egrl.core.interrupts import ENDING, StopSignal, watch_interrupts


def defaults() -> None:
    """Let every signal do what it does by default: a shell or nohup may have started the tests with some ignored."""
    for number in ENDING:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in ENDING}
    defaults()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def compiled() -> None:
    """As numba has it: an interrupt in machine code ends as another error."""
    try:
        interrupt()
    except KeyboardInterrupt:
        raise SystemError("returned a result with an exception set") from None


def _stopped_twice() -> None:
    with StopSignal() as stop:
        interrupt()
        assert stop()
        compiled()


def _stopped_once() -> None:
    with StopSignal():
        interrupt()
        raise SystemError("a fault of our own")


def test_the_second_interrupt_is_one_whatever_compiled_code_makes_of_it():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        _stopped_twice()
    assert signal.getsignal(signal.SIGINT) is before


def test_errors_after_one_interrupt_stay_what_they_are():
    with pytest.raises(SystemError):
        _stopped_once()


@pytest.mark.parametrize("hint", ["stopping soon", ""])
def test_the_first_interrupt_is_answered_and_the_second_is_not(hint, capfd):
    with StopSignal(hint):
        interrupt()
        assert capfd.readouterr().err == (f"\negrl: {hint}\n" if hint else "")
        with pytest.raises(KeyboardInterrupt):
            interrupt()
    assert capfd.readouterr().err == ""


def test_it_is_noticed_that_something_was_interrupted():
    before = signal.getsignal(signal.SIGINT)
    with watch_interrupts() as interrupted:
        assert not interrupted()
        with pytest.raises(SystemError):
            compiled()
        assert interrupted()
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(("stopped", "code"), [(True, 130), (False, None)])
def test_commands_interrupted_in_machine_code_end_in_one_line(stopped, code, monkeypatch, capsys):
    def command(argv: list[str]) -> int:
        if stopped:
            compiled()
        raise SystemError("a fault of our own")

    monkeypatch.setattr(cli, "_main", command)
    if code is None:
        with pytest.raises(SystemError):
            cli.main([])
    else:
        assert cli.main([]) == code
        assert capsys.readouterr().err == "egrl: error: interrupted\n"


@pytest.mark.parametrize("number", ENDING, ids=lambda number: signal.Signals(number).name)
def test_every_signal_that_ends_a_command_is_a_request_first_and_then_an_interrupt(number):
    before = signal.getsignal(number)
    with watch_interrupts() as interrupted:
        with StopSignal() as stop:
            os.kill(os.getpid(), number)
            assert stop()
            assert not interrupted()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
        assert interrupted()
    assert signal.getsignal(number) is before


def test_a_signal_that_is_ignored_stays_so():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with watch_interrupts() as interrupted, StopSignal() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stop()
            assert not interrupted()
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", ENDING, ids=lambda number: signal.Signals(number).name)
def test_a_command_that_is_ended_while_it_starts_says_so_in_one_line(number):
    """The signal comes with the first import of the command line, long before a command begins."""
    code = (
        "import os, sys, importlib.abc\n"
        "class Ending(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        f"        if name == 'egrl.cli.main': os.kill(os.getpid(), {int(number)})\n"
        "sys.meta_path.insert(0, Ending())\n"
        "from egrl.__main__ import entry\n"
        "entry()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=defaults,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "egrl: error: interrupted\n")
