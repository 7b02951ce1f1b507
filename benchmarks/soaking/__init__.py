"""The parts of `benchmarks/soak.py`: what is done to runs, and what they must be like afterwards."""
