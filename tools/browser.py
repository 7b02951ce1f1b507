"""Open the reports of all problems in headless Chromium: no word on the console, search, sort and hover work.

    python tools/browser.py FOLDER [RUN…]

makes a small run of each problem (or takes the runs that are named, and a comparison of those of one problem), writes
their reports and pictures of them into FOLDER (light, dark, as wide as a phone, and printed), and says what is wrong.
`tests/egrl/report/test_report.py` does the same with one page.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage")
SMALL = {
    "nnpi": ["--workload", "resnet18", "--method", "annealing", "--gens", "5"],
    "mmap": ["--problem", "mmap", "--workload", "alexnet_train_batch_32", "--evals", "60"],
    "mcm": ["--problem", "mcm", "--workload", "resnet50", "--method", "annealing", "--gens", "2"],
    "fft": ["--problem", "fft", "--workload", "dft-64", "--gens", "2"],
    "banks": [
        "--problem",
        "banks",
        "--workload",
        "alexnet_train_batch_32",
        "--method",
        "annealing",
        "--gens",
        "5",
    ],
    "shard": ["--problem", "shard", "--workload", "instance.json.gz", "--method", "annealing", "--gens", "5"],
}
"""Flags of a small run of each problem."""
TRIAL = """
<script>
addEventListener("load", () => {
  const found = {tables: 0, marks: 0};
  for (const search of document.querySelectorAll("input[type=search]")) {
    const section = search.closest("section"), body = section.querySelector("tbody"), rows = [...body.rows];
    const count = () => rows.filter(row => !row.hidden).length, word = rows[0].cells[1].textContent;
    search.value = word; search.dispatchEvent(new Event("input"));
    const first = word.toLowerCase().split(/\\s+/)[0];
    if (count() < 1 || rows.some(row => !row.hidden && !row.textContent.toLowerCase().includes(first)))
      throw new Error("search: " + word);
    search.value = "no such thing \\u0001"; search.dispatchEvent(new Event("input"));
    if (count()) throw new Error("search finds what is not there");
    search.value = ""; search.dispatchEvent(new Event("input"));
    const only = section.querySelector(".only");
    if (only) {
      only.click();
      if (rows.some(row => !row.hidden && !row.classList.contains("changed"))) throw new Error("filter");
      only.click();
    }
    section.querySelectorAll("th").forEach((head, k) => {
      if (!head.classList.contains("n")) return;
      head.click();
      const values = [...body.rows].map(row => Number(row.cells[k].dataset.v ?? -Infinity));
      if (values.some((value, i) => i && value > values[i - 1])) throw new Error("sort by " + head.textContent);
    });
    found.tables += 1;
  }
  for (const mark of document.querySelectorAll(".plot [aria-label]")) {
    mark.dispatchEvent(new PointerEvent("pointermove", {bubbles: true, clientX: 50, clientY: 50}));
    const tip = document.getElementById("tip");
    if (tip.style.display !== "block" || tip.textContent !== mark.getAttribute("aria-label")) throw new Error("hover");
    if (mark.dataset.key !== undefined && !mark.classList.contains("same")) throw new Error("the same tensor");
    if (++found.marks > 40) break;
  }
  if (!document.querySelector("td.command .copy") || !document.querySelector(".tools .copy")) throw new Error("copy");
  const plot = document.querySelector(".plot");
  document.querySelector(".zoom button").click();
  if (plot.viewBox.baseVal.width !== 500) throw new Error("zoom");
  document.body.dataset.trial = JSON.stringify(found);
});
</script>
"""
"""Tries everything that the script of a page does, and says in an attribute that it came to its end."""


def browser() -> str | None:
    """The path of a Chromium on this machine, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def drive(path: str, *flags: str) -> subprocess.CompletedProcess[str]:
    """Run the browser without a window and without the network."""
    with tempfile.TemporaryDirectory() as profile:
        blocked = "--host-resolver-rules=MAP * ~NOTFOUND"
        command = [path, *FLAGS, blocked, f"--user-data-dir={profile}", *flags]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def trial(path: str, page: Path) -> dict[str, int]:
    """How many tables and marks of a page were tried. RuntimeError where the console said something, or one failed."""
    with tempfile.TemporaryDirectory() as folder:
        tried = Path(folder) / "page.html"
        tried.write_text(page.read_text(encoding="utf-8") + TRIAL, encoding="utf-8")
        done = drive(
            path, "--enable-logging=stderr", "--virtual-time-budget=20000", "--dump-dom", tried.as_uri()
        )
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    end = re.search(r'data-trial="([^"]*)"', done.stdout)
    if said or end is None:
        raise RuntimeError(f"{page}: {said or done.stderr[-500:] or 'the trial did not come to its end'}")
    found: dict[str, int] = json.loads(html.unescape(end[1]))
    return found


def pictures(path: str, page: Path, height: int = 4500) -> list[Path]:
    """Pictures of a page beside it: light, dark, on a phone; and it printed, as PDF."""
    found = []
    looks = {
        "light": (f"--window-size=1280,{height}", "--blink-settings=preferredColorScheme=1"),
        "dark": (f"--window-size=1280,{height}", "--blink-settings=preferredColorScheme=0"),
        "phone": (f"--window-size=500,{height}", "--blink-settings=preferredColorScheme=1"),
    }
    for look, flags in looks.items():
        target = page.with_name(f"{page.stem}-{look}.png")
        drive(path, *flags, f"--screenshot={target}", page.as_uri())
        found.append(target)
    target = page.with_name(f"{page.stem}-print.pdf")
    drive(path, f"--print-to-pdf={target}", "--no-pdf-header-footer", page.as_uri())
    return [*found, target]


def main(folder: Path, runs: list[Path]) -> int:
    """Write, try and picture the reports. Returns the exit code."""
    path = browser()
    if path is None:
        print(f"no browser found: expected one of {', '.join(NAMES)}", file=sys.stderr)
        return 1
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    egrl = [sys.executable, "-m", "egrl"]
    if not runs:
        make = [
            sys.executable,
            str(Path(__file__).parents[1] / "plugins/shard/tests/make_sharding.py"),
            "instance.json.gz",
        ]
        subprocess.run([*make, "--nodes", "200", "--strategies", "6"], cwd=folder, check=True)
        for name, flags in SMALL.items():
            for seed in (0, 1) if name == "nnpi" else (0,):
                runs.append(folder / f"run-{name}-s{seed}")
                if not runs[-1].exists():
                    command = [*egrl, "run", *flags, "--seed", str(seed), "--quiet", "--out", str(runs[-1])]
                    subprocess.run(command, cwd=folder, check=True)
    kinds: dict[tuple[str, str], list[Path]] = {}
    for run in runs:
        summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
        kinds.setdefault((summary["problem"], summary["workload"]), []).append(run)
    groups = [[run] for run in runs] + [group for group in kinds.values() if len(group) > 1]
    wrong = 0
    for group in groups:
        name = group[0].name if len(group) == 1 else f"compared-{group[0].name}"
        page = folder / f"{name}.html"
        subprocess.run(
            [*egrl, "report", *map(str, group), "-o", str(page)], check=True, stdout=subprocess.DEVNULL
        )
        try:
            print(f"{page.name}: {page.stat().st_size:,} bytes, tried {trial(path, page)}")
        except RuntimeError as error:
            wrong += 1
            print(error, file=sys.stderr)
        pictures(path, page)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), [Path(run) for run in sys.argv[2:]]))
