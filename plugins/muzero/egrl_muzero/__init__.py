"""MuZero: an agent that plans the moves of any game in a model that it learns; knows no rules but through `Game`."""
