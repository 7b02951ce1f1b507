"""Executors, which measure proposals: in this process, in several, by Ray, or on boards behind a command. They know no
method and no run folder.
"""
