"""Models of a board: the chip file's latency model with parameters that measurements can teach."""
