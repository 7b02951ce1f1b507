"""A problem: jobs on cores."""

import hashlib

import numpy as np

from hwsim.problem import About, Baseline, Evaluation, Floats, Keys, Mapping16, Violation
from hwsim.space import Space
from workloads.errors import InputError


class Balance:
    """Jobs on equal cores, so that the last core ends early (--workload JOBS, --chip CORES)."""

    def __init__(self, workload: str, chip: str) -> None:
        jobs = number(workload, "--workload")
        cores = number("4" if chip == "default" else chip, "--chip")
        self.seconds = np.random.default_rng(jobs).uniform(1.0, 10.0, jobs)  # float64 [jobs]
        self.about = About(
            "balance", f"jobs-{jobs}", f"cores-{cores}", baseline_name="dealing out", place="core"
        )
        names = [f"core{core}" for core in range(cores)]
        choices = np.full((jobs, 1), cores, np.int16)
        self.space = Space([f"job{job}" for job in range(jobs)], ["core"], choices, labels=[names])
        dealt = (np.arange(jobs) % cores).astype(np.int16)[:, None]
        self.baseline = Baseline(dealt, float(self.loads(dealt[None]).max()), "dealt out in turn")

    def loads(self, mapping: Mapping16) -> Floats:
        """Seconds of work of each core, float64 [B, cores], of mappings [B, jobs, 1]."""
        cores = np.arange(len(self.space.labels[0]))
        return (self.seconds[None, :, None] * (mapping == cores)).sum(axis=1)

    def evaluate(self, mapping: Mapping16, key: Keys) -> Evaluation:
        """The seconds after which the last core ends. Nothing is random: the keys are not used."""
        self.space.check(mapping, key)
        cost = self.loads(mapping).max(axis=1)
        ran, moved = np.ones(len(cost), np.bool_), np.zeros(len(cost))
        return Evaluation.of_costs(cost, self.baseline.cost, ran, mapping, moved)

    def judge(self, mapping: Mapping16) -> list[Violation]:
        """Jobs on cores that do not exist."""
        last = len(self.space.labels[0]) - 1
        cores = mapping[:, 0].tolist()
        wrong = [(job, core) for job, core in enumerate(cores) if not 0 <= core <= last]
        return [Violation("core", f"job{job}", core, last, "") for job, core in wrong]

    def fingerprint(self) -> str:
        """Of all that a cost depends on."""
        return hashlib.sha256(f"balance 1 {self.about.chip}".encode() + self.seconds.tobytes()).hexdigest()


def number(text: str, flag: str) -> int:
    """The number that a flag gives. InputError where it gives none."""
    if not text.isdecimal() or not 1 <= int(text) <= 10_000:
        raise InputError(f"{flag}: expected a number from 1 to 10000, found {text!r}")
    return int(text)
