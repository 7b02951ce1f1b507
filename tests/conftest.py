"""What holds for every test."""

import os
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings

# A loaded machine must not fail a property: no deadlines, no complaints about slow draws.
settings.register_profile("egrl", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("egrl")

# No test learns FFT plans into the user's own wisdom, nor searches with what is there.
os.environ["EGRL_FFT_WISDOM"] = str(Path(tempfile.mkdtemp(prefix="egrl-wisdom-")) / "wisdom.json")
