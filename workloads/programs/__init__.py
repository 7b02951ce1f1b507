"""Compiled programs: type, JSON, checks, and programs made of workloads (`shipped/` has the data); knows no chip."""
