"""Pack the finished runs of a reproduction into one small archive: what its report is made of, and no more.

    python tools/pack_runs.py reproduce-mmap plugins/muzero/docs/results/data/mmap-runs.tar.xz
    mkdir reproduce-mmap; tar xf plugins/muzero/docs/results/data/mmap-runs.tar.xz -C reproduce-mmap    # and back

Checkpoints, policies and single evaluations stay behind: these runs can be reported, and not be gone on with. Of
metrics.csv the lines are kept on which the best reward changed, and some 300 at even distances. Runs of `suite`
keep their evaluations, from which correlations are made.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import tarfile
from pathlib import Path

KEPT = ("config.toml", "summary.json", "metrics.csv", "best_mapping.json", "program.json", "chip.toml")
LINES = 300


def thinned(text: str) -> str:
    """The metrics without most of the lines on which nothing became better."""
    head, *lines = csv.reader(io.StringIO(text))
    column, every = head.index("best_reward"), max(1, len(lines) // LINES)
    kept = [
        line
        for k, line in enumerate(lines)
        if k % every == 0 or k == len(lines) - 1 or line[column] != lines[k - 1][column]
    ]
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([head, *kept])
    return out.getvalue()


def contents(run: Path, root: Path) -> dict[Path, bytes]:
    """What is packed of one run, by path."""
    files = [run / name for name in KEPT if (run / name).is_file()]
    if run.relative_to(root).parts[0] == "suite":
        files += sorted((run / "mappings").glob("*.npz"))
    data = {path: path.read_bytes() for path in files}
    metrics = run / "metrics.csv"
    if metrics in data:
        data[metrics] = thinned(data[metrics].decode()).encode()
    return data


def main() -> None:
    """Write the archive and say how large it is."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("archive", type=Path)
    given = parser.parse_args()
    given.archive.parent.mkdir(parents=True, exist_ok=True)
    summaries = sorted(given.folder.rglob("summary.json"))
    runs = [path.parent for path in summaries if json.loads(path.read_text())["complete"]]
    with tarfile.open(given.archive, "w:xz") as archive:
        for run in runs:
            for path, data in contents(run, given.folder).items():
                entry = tarfile.TarInfo(str(path.relative_to(given.folder)))
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
    print(f"{given.archive}: {len(runs)} runs, {given.archive.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
