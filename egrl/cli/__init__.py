"""The command line: `main.py`, and a file a command that exports `command`; knows words and flags, and searches
nothing itself.
"""
