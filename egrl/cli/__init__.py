"""The command line: `main.py`, and one file per command or per few of one kind. It reads flags and prints; it
searches nothing itself.
"""
