"""Compiled programs: the type, its JSON, its checks, and programs made of workloads; `shipped/` has the data."""
