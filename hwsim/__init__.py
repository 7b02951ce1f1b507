"""Hardware: what a mapping costs on a chip; knows no search, no run folder and no torch."""
