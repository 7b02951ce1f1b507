"""A comparison as a whole: its runs, what they reached, and the files that say so.

The runs of a comparison: what is to be run, and running them, several at once, a process each.

A folder of runs is its own record: what is finished there is not run again, what was begun goes on.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from hwsim.capabilities import shipped_cost
from hwsim.problem import Problem
from policies.shipped import policy_file
from workloads.errors import InputError, RunFailure
from workloads.files import read_bytes
from workloads.text import hint

if TYPE_CHECKING:
    from egrl.runs.config import RunConfig


DOCUMENT, TEXT = "comparison.json", "comparison.md"


def compare(
    workloads: Sequence[str],
    methods: Sequence[str],
    seeds: int,
    folder: Path,
    options: Mapping[str, Any],
    at_once: int,
    say: Callable[[str], None],
) -> dict[str, Any] | None:
    """Run what is missing, and write comparison.json, comparison.md and the curves into the folder.

    Args:
        workloads, methods: of the runs; each with seeds 0 .. `seeds` - 1.
        folder: of all runs; what is finished there is not run again.
        options: problem, evals or seconds, chip, start ("" or None: the preset's), settings, preset; see
            `egrl compare`. Also `threads` and `workers` of each run [1], and `init`, a policy
            file that each begins with [""].
        at_once: runs at once.
        say: called with a line per run that ended.

    Returns comparison.json, in which failed runs stand by their messages (`check`); None where the user stopped it.
    Raises InputError where an option is wrong or the folder holds runs of another configuration.
    """
    from egrl.compare import statistics as comparison
    from egrl.core import atomic

    subjects = plan(workloads, methods, seeds, folder, options)
    jobs = [job for subject in subjects for job in subject.jobs]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"--out {folder}: expected a folder that can be written: {error.strerror}"
        ) from error
    failures, interrupted = run_all([job for job in jobs if job.argv], at_once, say)
    if interrupted:
        return None
    budget = budget_of(options)
    document = {
        "kind": "comparison",
        "version": 1,
        "methods": list(methods),
        "seeds": seeds,
        "evaluations": None if "seconds" in budget else options["evals"],
        "seconds": budget.get("seconds"),
        "start": subjects[0].start,
        "workloads": [report(subject, folder, failures) for subject in subjects],
    }
    atomic.write(folder / DOCUMENT, json.dumps(document, indent=1) + "\n")
    atomic.write(folder / TEXT, comparison.markdown(document))
    return document


def check(document: Mapping[str, Any]) -> None:
    """RunFailure where runs of a comparison failed."""
    failed = sum(len(entry["failed"]) for entry in document["workloads"])
    if failed:
        total = document["seeds"] * len(document["methods"]) * len(document["workloads"])
        raise RunFailure(f"{failed} of {total} runs failed; the same command tries them again")


def report(subject: Subject, folder: Path, failures: Mapping[Path, str]) -> dict[str, Any]:
    """A workload's part of comparison.json; its curves are written to curves-<workload>.png."""
    from analysis import style
    from analysis.curves import learning_curves
    from egrl.compare import statistics as comparison
    from egrl.core import atomic
    from egrl.figures.curves import read_curve
    from egrl.methods import find_method
    from egrl.runs import text
    from egrl.runs.summary import read_summary

    ended = [job.path for job in subject.jobs if job.path not in failures]
    summaries = [read_summary(path) for path in ended]
    curves = [read_curve(path, summary) for path, summary in zip(ended, summaries, strict=True)]
    runs = [
        comparison.run_of(summary, None if curve.deployable is None else curve.deployable.tolist())
        for summary, curve in zip(summaries, curves, strict=True)
    ]
    problem = subject.problem
    title = f"{problem.about.workload} on {problem.about.chip}"
    bound = max((s["bound"] for s in summaries if s["bound"] is not None), default=None)
    best_known = comparison.best_known_cost(runs, shipped_cost(problem))
    if curves:
        path = folder / f"curves-{subject.name}.png"
        try:
            fastest = None if bound is None else problem.baseline.cost / bound
            style.save(
                learning_curves(
                    curves, title, fastest, text.drawn_baseline_text(problem.about), problem.about.evaluated
                ),
                path,
            )
        except OSError as error:
            raise atomic.disk_failure(path, error) from error
    groups = {method: find_method(method).group for method in subject.methods}
    table = comparison.rows(runs, subject.methods, best_known, bound, groups)
    return {
        "workload": problem.about.workload,
        "problem": problem.about.name,
        "chip": problem.about.chip,
        "unit": problem.about.unit,
        text.TABLE: text.table_of(problem.about),
        "fingerprint": problem.fingerprint(),
        "baseline": problem.baseline.cost,
        "rule": problem.baseline.name,
        "best_known": best_known,
        "bound": bound,
        "reference": comparison.reference_of(subject.methods),
        "rows": [dataclasses.asdict(row) for row in table],
        "runs": [dataclasses.asdict(run) for run in runs],
        "failed": [failures[job.path] for job in subject.jobs if job.path in failures],
    }


POLL_S = 0.05
STOPPING = "stopping; each run ends its generation first; Ctrl-C again stops at once"
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@dataclass(frozen=True)
class Job:
    """One run: its folder, and the arguments of the `egrl run` that it still needs (none: it is finished)."""

    label: str
    path: Path
    argv: tuple[str, ...]


@dataclass(frozen=True)
class Subject:
    """A workload and its runs."""

    name: str
    problem: Problem
    start: str
    methods: tuple[str, ...]
    jobs: tuple[Job, ...]


PASSED_ON = ("problem", "chip", "start", "baseline", "init", "threads", "workers")
"""Options of a comparison that are those of each run."""


def plan(
    workloads: Sequence[str], methods: Sequence[str], seeds: int, folder: Path, options: Mapping[str, Any]
) -> list[Subject]:
    """The runs of a comparison. InputError if an option is wrong or the folder holds runs of another configuration."""
    from egrl.methods import find_method
    from egrl.problems import build_problem
    from egrl.runs.config import resolve

    for setting in options["settings"]:
        _settings_of(methods, methods[0], setting)
    subjects: list[Subject] = []
    for workload in workloads:
        name = (
            Path(workload.removesuffix(".gz")).stem
            if "/" in workload or Path(workload).is_file()
            else workload
        )
        jobs, problem, start = list[Job](), None, ""
        if any(subject.name == name for subject in subjects):
            raise InputError(f"--workload: expected workloads of different names, found {name!r} twice")
        for method in methods:
            given = {key: options[key] for key in PASSED_ON if options.get(key)} | budget_of(options)
            settings = [s for entry in options["settings"] for s in _settings_of(methods, method, entry)]
            resolved = resolve({"workload": workload, "method": method, **given}, settings, options["preset"])
            if given.get("baseline") and not resolved.run.baseline:
                settings.append(f"problem.baseline={given['baseline']}")  # what it became
            if problem is None:
                own = resolved.run
                problem = build_problem(own.problem, workload, own.chip, resolved.problem, own.baseline)
                start = own.start
            reason = find_method(method).serves(problem)
            if reason is not None:
                raise InputError(f"--methods: {method} cannot serve problem {problem.about.name}: {reason}")
            for seed in range(seeds):
                path = folder / name / f"{method}-s{seed}".replace(":", "-")
                run = dataclasses.replace(resolved, run=dataclasses.replace(resolved.run, seed=seed))
                argv = _arguments(path, run, problem, settings, options["preset"])
                jobs.append(Job(f"{name} {method} seed {seed}", path, argv))
        assert problem is not None
        subjects.append(Subject(name, problem, start, tuple(methods), tuple(jobs)))
    return subjects


def budget_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """The budget of every run, as `RunOptions` names it: seconds where they are given, else evaluations."""
    if options.get("seconds") is not None:
        return {"seconds": float(options["seconds"])}
    return {"evals": options["evals"]}


def _settings_of(methods: Sequence[str], method: str, setting: str) -> list[str]:
    """The setting as `egrl run --method METHOD --set` takes it; none where it is another method's."""
    if setting.startswith(("problem.", "method.")):
        return [setting]
    for name in methods:
        if setting.startswith(f"{name}."):
            return ["method" + setting.removeprefix(name)] if name == method else []
    raise InputError(
        f"--set {setting}: expected problem.KEY=VALUE, or NAME.KEY=VALUE with NAME one of {', '.join(methods)}"
        f"{hint(setting.partition('.')[0], ('problem', *methods))}"
    )


def _arguments(
    path: Path, run: RunConfig, problem: Problem, settings: Sequence[str], preset: str
) -> tuple[str, ...]:
    """Arguments of `egrl run` that make this run, or go on with it; none where it is finished."""
    from egrl.runs.folder import CONFIG
    from egrl.runs.resume import code_flags

    budget = [word for k, v in run.run.budget().items() for word in (f"--{k}", str(v))]
    if not (path / CONFIG).exists():
        given = {name: getattr(run.run, name) for name in ("workload", "method", "seed", *PASSED_ON)}
        given["out"] = path
        flags = [word for name, value in given.items() if value != "" for word in (f"--{name}", str(value))]
        flags += [word for setting in settings for word in ("--set", setting)]
        return ("run", *flags, *(("--preset", preset) if preset else ()), *budget, "--quiet")
    _check_same(path, run)
    if _finished(path, run, problem):
        return ()
    return (
        "run",
        "--resume",
        str(path),
        *code_flags(run),
        "--workers",
        str(run.run.workers),
        *budget,
        "--quiet",
    )


def _check_same(path: Path, run: RunConfig) -> None:
    """InputError where the run in the folder was not made with this configuration, or with a larger budget."""
    import tomllib

    from egrl.core import typed_tables
    from egrl.runs import config
    from egrl.runs.config import RESUMABLE
    from egrl.runs.folder import CONFIG

    where = str(path / CONFIG)
    try:
        found = config.read_toml((path / CONFIG).read_text(), where)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{where}: expected a config file: {error}") from error
    expected = tomllib.loads(config.to_toml(run))
    problem = None if run.problem is None else type(run.problem)()
    plain = config.RunConfig(config.RunOptions(), problem, type(run.method)())
    defaults = typed_tables.dotted_keys(tomllib.loads(config.to_toml(plain)))  # of what is newer than the run
    if measured := found["run"].get("evaluator"):
        raise InputError(
            f"{where}: run.evaluator: expected none, as the model measures in a comparison, found {measured!r}; take"
            " another --out"
        )
    if run.run.init and _kept_policy(path) == read_bytes(policy_file(run.run.init), "a policy file"):
        expected["run"]["init"] = found["run"].get("init")  # the same policy, wherever it lies now
    for table, values in found.items():
        left, right = (typed_tables.dotted_keys({table: tables}) for tables in (values, expected[table]))
        for key in sorted(left.keys() | right.keys()):
            made = left.get(key, defaults.get(key))
            if key.removeprefix("run.") not in RESUMABLE and made != right.get(key):
                same = f"--baseline {made}" if made else "no --baseline"
                raise InputError(
                    f"{where}: {key}: expected {right.get(key)!r} as in this comparison, found {made!r};"
                    f" take another --out{f', or {same}' if key == 'run.baseline' else ''}"
                )
    for kind, most in run.run.budget().items():
        spent = found["run"].get(kind)
        if not isinstance(spent, int | float) or spent > most:
            raise InputError(f"{where}: run.{kind}: expected at most --{kind} {most:g}, found {spent}")


def _kept_policy(path: Path) -> bytes | None:
    """The policy that the folder's run began with; None where there is none."""
    from egrl.runs.folder import INIT_FILE

    return (path / INIT_FILE).read_bytes() if (path / INIT_FILE).is_file() else None


def _finished(path: Path, run: RunConfig, problem: Problem) -> bool:
    """Whether the folder's run has spent this budget. InputError where it ran on another simulator."""
    from egrl.runs.folder import SUMMARY
    from egrl.runs.summary import read_summary

    if not (path / SUMMARY).exists():
        return False
    summary = read_summary(path)
    if summary["fingerprint"] != problem.fingerprint():
        inputs = "chip, workload or --baseline" if run.run.baseline else "chip or workload"
        raise InputError(
            f"{path}: this run was made by another simulator, {inputs}: expected fingerprint"
            f" {problem.fingerprint()[:12]}, found {summary['fingerprint'][:12]}; take another --out"
        )
    return bool(summary["complete"]) and summary.get("budget") == run.run.budget()


def run_all(jobs: Sequence[Job], at_once: int, say: Callable[[str], None]) -> tuple[dict[Path, str], bool]:
    """Run the jobs, `at_once` of them, each in a process of its own.

    Returns why which folders failed, and whether the user stopped it. A first Ctrl-C lets every run finish its
    generation and save.
    """
    from egrl.core.interrupts import StopSignal

    waiting, failures, done = deque(jobs), dict[Path, str](), 0
    running: list[tuple[Job, subprocess.Popen[bytes], IO[bytes]]] = []
    with StopSignal() as stop:
        said = False
        try:
            while running or (waiting and not stop()):
                while waiting and len(running) < at_once and not stop():
                    running.append(_start(waiting.popleft()))
                if stop() and not said:
                    said = True
                    say(STOPPING)
                    for _, process, _ in running:
                        process.terminate()
                for entry in [entry for entry in running if entry[1].poll() is not None]:
                    running.remove(entry)
                    job, process, errors = entry
                    done += 1
                    if process.returncode == 0:
                        say(f"{done}/{len(jobs)} {job.label}: {_outcome(job.path)}")
                    elif not stop():
                        failures[job.path] = f"{job.label} failed: {_last_line(errors, process.returncode)}"
                        say(f"{done}/{len(jobs)} {failures[job.path]}")
                    errors.close()
                time.sleep(POLL_S)
        finally:
            for _, process, errors in running:
                process.kill()
                process.wait()
                errors.close()
        return failures, stop()


def _start(job: Job) -> tuple[Job, subprocess.Popen[bytes], IO[bytes]]:
    """A run in a session of its own, so that Ctrl-C reaches it once, from here; what it says on stderr."""
    errors = tempfile.TemporaryFile()  # noqa: SIM115
    argv = [sys.executable, "-m", "egrl", *job.argv]
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=errors,
        env={**os.environ, **ONE_THREAD},
        start_new_session=True,
    )
    return job, process, errors


def _outcome(path: Path) -> str:
    from egrl.runs.summary import read_summary

    summary = read_summary(path)
    best = summary["best"]
    return f"{0.0 if best is None else best['speedup']:.4f}x in {summary['seconds']:.0f} s"


def _last_line(errors: IO[bytes], code: int) -> str:
    """The last line that a process wrote to stderr, or how it ended."""
    errors.seek(0)
    lines = [line for line in errors.read().decode(errors="replace").splitlines() if line.strip()]
    return lines[-1].removeprefix("egrl: error: ").strip() if lines else f"exit code {code}"
