"""The command line: `main.py`, and one file per command, which exports `command`. It reads flags and prints; it
searches nothing itself.
"""
