"""Vela as a command: which one, what it can do, and one compile in a folder of its own."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from egrl_vela import written
from egrl_vela.written import Unreadable, Written
from workloads.errors import InputError, RunFailure

SHIPPED = "Arm/vela.ini"
"""The configuration file that comes with Vela, by the name that Vela has for it."""
INSTALL = "pip install ethos-u-vela, or name Vela's command by --vela"
SWITCHES = ("--optimise=Size", "--disable-cascading", "--disable-ifm-reuse", "--disable-buffering")
"""Options that change how Vela schedules, and not what the network computes."""
OTHER_CORES = ("--debug-force-legacy-core", "--debug-force-regor")
"""The option for the core that is not the default: Vela 5 has the Python core beside Regor, Vela 4 Regor beside it."""
ASKING_S = 120
"""Seconds that Vela has for its version or its help."""


class Ended(Exception):
    """No compile is wanted any more."""


@dataclass(frozen=True, order=True)
class Setting:
    """Options of one compile.

    Attributes:
        limit_bytes: SRAM that the program may use (`--arena-cache-size`); 0 leaves it to Vela.
        flags: of `SWITCHES` and `OTHER_CORES`, sorted.
    """

    limit_bytes: int
    flags: tuple[str, ...] = ()

    def words(self) -> list[str]:
        """As words of Vela's command line."""
        limit = [f"--arena-cache-size={self.limit_bytes}"] if self.limit_bytes else []
        return [*limit, *self.flags]


DEFAULT = Setting(0)


@dataclass(frozen=True)
class Outcome:
    """How a compile ended.

    Attributes:
        written: what it wrote, if it ended well.
        error: why it did not, in Vela's words or ours.
        limit_s: the time limit that it had, if it was ended and may go well with more time; 0 otherwise.
    """

    written: Written | None
    error: str = ""
    limit_s: float = 0.0


@dataclass(frozen=True)
class Target:
    """A model and the device that it is compiled for.

    Attributes:
        model: the .tflite file, as the user named it.
        accelerator, system, memory: the names that Vela's options of the same kind take.
        config: Vela's configuration file, as the user named it.
        limit_bytes: SRAM of the device where it is not the memory mode's; 0 otherwise.
    """

    model: str
    accelerator: str
    system: str
    memory: str
    config: str = SHIPPED
    limit_bytes: int = 0

    def words_for(self, limit_bytes: int = 0, absolute: bool = False) -> list[str]:
        """Words of Vela's command line for this model and device, with a limit of SRAM if that is not the device's.

        With `absolute` paths that hold in any folder.
        """
        model, config = self.model, self.config
        if absolute:
            model = str(Path(model).absolute())
            config = str(Path(config).absolute()) if Path(config).is_file() else config
        device = [
            f"--accelerator-config={self.accelerator}",
            f"--config={config}",
            f"--system-config={self.system}",
            f"--memory-mode={self.memory}",
        ]
        return [model, *device, *Setting(limit_bytes or self.limit_bytes).words()]

    def words(self, setting: Setting, absolute: bool) -> list[str]:
        """Words of Vela's command line for a setting."""
        return [*self.words_for(setting.limit_bytes, absolute), *setting.flags]


@dataclass
class Vela:
    """The user's Vela.

    Attributes:
        command: how it is called.
        version: what it says of itself.
        flags: of `SWITCHES` and `OTHER_CORES`, those that it has.
    """

    command: str
    version: str
    flags: tuple[str, ...]
    _running: set[subprocess.Popen[bytes]] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _ended: bool = False

    def flags_for(self, target: Target) -> tuple[str, ...]:
        """Those of `flags` that the device has: only one core knows the U85."""
        one = "u85" in target.accelerator.lower()
        return tuple(flag for flag in self.flags if not (one and flag in OTHER_CORES))

    def compile(self, target: Target, setting: Setting, folder: Path, time_limit_s: float) -> Outcome:
        """Compile into a folder that is there and empty. What fails, hangs or writes nonsense is an outcome, too.

        Raises:
            Ended: `end` was called.
            RunFailure: the command cannot be started.
        """
        argv = [self.command, *target.words(setting, True), f"--output-dir={folder}", "--verbose-performance"]
        try:
            code, said = self._run(argv, folder, time_limit_s)
        except subprocess.TimeoutExpired:
            return Outcome(None, f"ended after {time_limit_s:g} s", time_limit_s)
        if code < 0:  # the machine's doing, or somebody's: another time it may go well
            return Outcome(None, f"killed by signal {-code}", time_limit_s)
        if code:
            return Outcome(None, _last_words(said) or f"exit code {code}")
        try:
            return Outcome(written.read(folder))
        except (Unreadable, OSError) as error:
            return Outcome(None, str(error))

    def end(self) -> None:
        """End all compiles, and what they have started; none begins any more."""
        with self._lock:
            self._ended = True
            for process in self._running:
                _kill(process)

    def _run(self, argv: Sequence[str], folder: Path, time_limit_s: float) -> tuple[int, str]:
        with tempfile.TemporaryFile() as said:  # a pipe may be held open by what Vela has started
            with self._lock:
                if self._ended:
                    raise Ended
                try:
                    process = subprocess.Popen(
                        argv,
                        cwd=folder,
                        stdin=subprocess.DEVNULL,
                        stdout=said,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                    )
                except OSError as error:
                    raise RunFailure(f"{self.command}: {error.strerror or error}") from error
                self._running.add(process)
            try:
                code = process.wait(time_limit_s)
            finally:
                with self._lock:
                    _kill(process)
                    process.wait()
                    self._running.discard(process)
            if self._ended:
                raise Ended
            said.seek(0)
            return code, said.read().decode(errors="replace")


def find(command: str = "") -> Vela:
    """The Vela that is named, or the one beside this Python, or the one on the path. InputError where there is none."""
    beside = Path(sys.executable).parent / "vela"
    found = shutil.which(command) if command else shutil.which(beside) or shutil.which("vela")
    if found is None:
        where = f"--vela {command}: expected a command, found none" if command else "Vela is not installed"
        raise InputError(f"{where}: {INSTALL}")
    found = str(Path(found).absolute())
    version, usage = _ask(found, "--version").strip(), _ask(found, "--help")
    if not re.search(r"\d+\.\d+", version) or "--arena-cache-size" not in usage:
        raise InputError(f"{found}: expected Arm's Vela, found a command that answers otherwise: {INSTALL}")
    has = set(re.findall(r"--[a-z-]+", usage))
    flags = [flag for flag in SWITCHES if flag.partition("=")[0] in has]
    other = [flag for flag in OTHER_CORES if flag in has][:1]
    return Vela(found, version.splitlines()[-1].strip(), (*flags, *other))


def digest(version: str, target: Target) -> str:
    """Of all that decides what a setting compiles to: the model, the device, and Vela's version."""
    hasher = hashlib.sha256()
    config = Path(target.config)
    parts = [
        version,
        target.accelerator,
        target.system,
        target.memory,
        str(target.limit_bytes),
        hashlib.sha256(Path(target.model).read_bytes()).hexdigest(),
        hashlib.sha256(config.read_bytes()).hexdigest() if config.is_file() else target.config,
    ]
    for part in parts:
        hasher.update(part.encode() + b"\0")
    return hasher.hexdigest()


def _ask(command: str, flag: str) -> str:
    try:
        done = subprocess.run([command, flag], capture_output=True, text=True, timeout=ASKING_S, check=True)
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError) as error:
        said = _last_words(getattr(error, "stderr", "") or "") or str(error)
        raise InputError(f"{command} {flag}: expected Arm's Vela, found: {said}: {INSTALL}") from error
    return done.stdout


def _last_words(said: str) -> str:
    """The last line that says something, without quotes and the names of the classes of errors."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    words = re.sub(r"^[A-Za-z_.]*Error: ", "", lines[-1]) if lines else ""
    quoted = re.fullmatch(r"'(.*)'|\"(.*)\"", words)
    return (quoted.group(1) or quoted.group(2) if quoted else words).removeprefix("Error: ")


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a process that runs, and all that it has started."""
    if process.poll() is not None:
        return
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
