"""Builders of the networks that ship as files: `tools/make_zoo.py` writes them to `workloads/zoo/shipped`."""
