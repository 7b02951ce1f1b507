"""Policies trained on some workloads and used on others; knows run folders, and leaves the searching to the loop."""
