"""The problem and the mapping of a command, from a run folder or from flags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from egrl.runs.text import start_word
from hwsim.capabilities import HasBestKnown
from hwsim.problem import Mapping16, Problem
from workloads.errors import InputError
from workloads.nearest import hint


def run_or_flags(
    command_name: str,
    run: str | None,
    flags: Mapping[str, str | None],
    settings: Sequence[str],
    baseline: str = "",
) -> tuple[Problem, Mapping16, str]:
    """The problem, the mapping [N, H] and where it is from: a run's best, or what the flags --workload, --mapping,
    --problem and --chip (None: not given) name. InputError where both or neither are given, or one is wrong.

    Beside a run --problem may name its problem, which it must where that is MODULE:NAME, and --mapping another mapping
    than its best. Speedups are over the mapping in the file `baseline`, if one is given.
    """
    given = [
        flag for flag, value in flags.items() if value is not None and flag not in ("--problem", "--mapping")
    ]
    given += ["--set"] * bool(settings)
    if run is not None and given:
        raise InputError(
            f"{command_name}: expected a run folder or --workload, found {run} and {', '.join(given)}: the two exclude"
            " each other, as a run has its own workload, chip and settings"
        )
    if run is not None:
        from egrl.runs import folder as run_folder
        from egrl.runs.past_run import PastRun

        if Path(run).is_file():
            raise InputError(
                f"{run}: expected a run folder, found a file; a mapping file is named by --mapping {run}, beside"
                " --workload"
            )
        past = PastRun.read(Path(run), flags["--problem"] or "").over(baseline)
        if (other := flags["--mapping"]) is not None:
            return (
                past.problem,
                mapping_of(other, past.problem),
                start_word(past.problem.about.baseline_name, other),
            )
        return past.problem, past.best_mapping(), str(Path(run) / run_folder.BEST)
    if flags["--workload"] is None:
        raise InputError(f"{command_name}: expected a run folder or --workload, found neither")
    from egrl.problems import build_problem

    subject = build_problem(
        flags["--problem"] or "nnpi", flags["--workload"], flags["--chip"] or "", settings, baseline
    )
    mapping = flags["--mapping"] or "compiler"
    chosen = mapping_of(mapping, subject)
    return subject, chosen, start_word(subject.about.baseline_name, mapping)


def mapping_of(mapping: str, problem: Problem) -> Mapping16:
    """The mapping [N, H] that --mapping names. InputError where there is none, or its file is not of the problem."""
    from egrl.core import mapping_file

    if mapping == "compiler":
        return problem.baseline.mapping
    if mapping == "best-known":
        found, remark = problem.best_known() if isinstance(problem, HasBestKnown) else (None, "")
        if found is None:
            why = remark or f"none ships for {problem.about.workload} on {problem.about.chip}"
            raise InputError(
                f"--mapping best-known: expected a problem of which the best mapping is known: {why}"
            )
        return found
    if not Path(mapping).exists():
        raise InputError(
            f"--mapping {mapping}: expected compiler, best-known or a mapping file (best_mapping.json of a run),"
            f" found no such file{hint(mapping, ('compiler', 'best-known'))}"
        )
    return mapping_file.read(mapping, problem)
