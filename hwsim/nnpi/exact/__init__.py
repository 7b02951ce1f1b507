"""The placement as a mixed-integer program: columns, rows, the solve; knows the latency model only as tables."""
