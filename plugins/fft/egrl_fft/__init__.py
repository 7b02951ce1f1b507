"""FFTs by plans that can be searched: a grammar of plans, codelets made when needed, and what runs them.

from egrl_fft import plan
y = plan(65536)(x)      # x complex128 [..., 65536]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from egrl_fft.transform import Fft

LARGEST = 1 << 24
_plans: dict[int, Fft] = {}


def plan(size: int) -> Fft:
    """The best plan known for DFTs of `size` points, compiled: wisdom's (`egrl_fft/wisdom.py`), else the default.

    It is kept, with its scratch: a second call gives the same object.

    Raises:
        InputError: a size that is no whole number from 1 to 2^24.
    """
    from workloads.errors import InputError

    if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= LARGEST:
        raise InputError(f"size: expected a whole number from 1 to {LARGEST}, found {size!r}")
    if size not in _plans:
        from egrl_fft import wisdom
        from egrl_fft.default import default_plan
        from egrl_fft.transform import Fft

        known = wisdom.known().get(size)
        _plans[size] = Fft(known.plan if known else default_plan(size))
    return _plans[size]


def learn(text: str) -> bool:
    """Measure a plan, such as the `plan` of a run's best_mapping.json, and keep it as wisdom if it is the best known.

    Returns whether it was kept; `plan` gives it from then on. A warning says where wisdom that could not be used went.

    Raises:
        InputError: no complete plan, or a file that cannot be written.
    """
    import warnings

    from egrl_fft import measured, wisdom
    from egrl_fft.notation import parse
    from workloads.errors import Notice

    learned = parse(text)
    found = wisdom.remember(learned, measured.seconds(learned))
    if found.kept:
        _plans.pop(learned.size, None)
    if found.aside is not None:
        text = f"FFT wisdom that could not be used is kept as {found.aside}: {found.reason}"
        warnings.warn(text, Notice, stacklevel=2)
    return found.kept
