"""Predicted against measured costs, by a description before and after it was fitted to them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.calibration import Predicted, calibration_figure
from egrl.calibrate.calibration import Calibration
from egrl.calibrate.measured import Network
from egrl.figures.drawing import Drawing, plain


def drawing(networks: Sequence[Network], found: Calibration) -> Drawing:
    """A panel for the description as it was, and one each for the fitted one and all that was learned, held out."""
    titles = {
        "nominal": "the chip file before",
        "fitted": "the fitted file, held out",
        "posterior": "all that was learned, held out",
    }
    panels = [
        Predicted(titles[name], np.exp(found.measured), np.exp(log_cost))
        for name, log_cost in found.predicted.items()
    ]
    names = [network.name for network in networks]
    sizes = [len(network.cost) for network in networks]
    network = np.repeat(np.arange(len(networks)), sizes)
    numbers = {"networks": names, "network": network, "panels": panels}
    return Drawing(calibration_figure(panels, network, names), plain(numbers))
