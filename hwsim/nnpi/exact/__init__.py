"""The placement problem as a mixed-integer program: its columns, its rows, and the solve with a polish."""
