"""Several methods with the same seeds: their runs, the statistics, the report; knows methods by name only."""
