"""Learn the board from its measurements: a family of models, what the data say of it, and what to measure next."""
