"""The contracts between methods and measuring, and the one loop; knows no file format, no command line, no network."""

VERSION = "0.2.0"
"""Of the package: what `egrl --version` says and Ray workers compare."""
