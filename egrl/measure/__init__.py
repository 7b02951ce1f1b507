"""Whatever measures proposals: this process, several, Ray, or boards behind a command; knows no method and no run
folder.
"""
