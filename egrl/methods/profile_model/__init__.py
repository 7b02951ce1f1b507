"""Learn the time of every op from profiles, without a description of the chip, and search the learned model."""
