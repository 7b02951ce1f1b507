"""Models that may describe the machine that a training step runs on."""
