"""Tune a Fourier transform for this machine, and use it in NumPy code: a circular convolution.

    python plugins/fft/example/convolve.py [SIZE] [EVALUATIONS]

The defaults (1024 points, 400 plans) take about 10 seconds. The fastest plan is kept as wisdom for later programs.
"""

from __future__ import annotations

import sys
import timeit
from collections.abc import Sequence

import numpy as np

import egrl
from egrl_fft import plan


def main(argv: Sequence[str]) -> int:
    """Search for the fastest plan, then convolve with it and with numpy's transform."""
    size = int(argv[0]) if argv else 1024
    evaluations = int(argv[1]) if len(argv) > 1 else 400
    result = egrl.search(f"dft-{size}", problem="fft", evals=evaluations, seed=0)
    print(f"{size} points: {result.speedup:.2f}x the default plan")

    transform = plan(size)  # the plan that the search left as wisdom
    rng = np.random.default_rng(0)
    signal, kernel = rng.normal(size=(2, size)) + 1j * rng.normal(size=(2, size))

    def backward(spectrum: np.ndarray) -> np.ndarray:
        return transform(spectrum.conj()).conj() / size  # an inverse transform by the forward one

    ours = backward(transform(signal) * transform(kernel))
    theirs = np.fft.ifft(np.fft.fft(signal) * np.fft.fft(kernel))
    print(f"convolution as numpy's: {np.allclose(ours, theirs)}")
    times = [
        min(timeit.repeat(lambda f=f: f(signal), number=1000, repeat=5)) for f in (transform, np.fft.fft)
    ]
    print(f"a transform: {times[0] * 1e3:.2f} us, numpy {times[1] * 1e3:.2f} us")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
