"""The papers' experiments, run again by `egrl reproduce NAME` in a clone; no part of the installed package.

A folder per paper: `plan.py` (what is run), `run.py` (running it), `numbers.py` (what the runs say), `published.py` and
`report.md.j2` (the report: its sentences and tables).
"""
