"""The figures of `egrl plot`: run folders in, arrays to `analysis`, a drawing and the numbers behind it out.

Each figure is a file that exports `draw(runs: Sequence[PastRun]) -> Drawing`, imported only when it is drawn. One that
reads something else of a folder exports `read(path)`, too, whose results `draw` takes instead.
"""

from __future__ import annotations

FIGURES: dict[str, tuple[str, str]] = {
    "curves": ("best speedup against evaluations; repetitions as a band", "egrl.figures.curves"),
    "shift": ("where the tensors of each of the compiler's memories went", "egrl.figures.shift"),
    "bands": ("each tensor's memory, compiler and best; of several runs the fastest", "egrl.figures.bands"),
    "transfer": ("policies along training, on other workloads without training", "egrl.figures.transfer"),
    "zeroshot": ("trained policies on workloads that none was trained on", "egrl.figures.zeroshot"),
    "umap": ("mappings as fast as the compiler's and the best, in two dimensions", "egrl.figures.embedding"),
    "utilisation": (
        "what memories hold over time, or chips of a module do, baseline and best",
        "egrl.figures.utilisation",
    ),
    "layout": ("each tensor's address and lifetime in each memory, best", "egrl.figures.layout"),
    "partition": ("what chips of a module do and hold, heuristic and best", "egrl.figures.partition"),
    "breakdown": ("what bounds each op, compiler and best; who gained and lost", "egrl.figures.breakdown"),
}
"""Name -> what it shows, in one line, and the module that draws it."""
