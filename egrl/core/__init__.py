"""The contracts between methods and measuring, and the one loop; knows no file format, no command line, no network."""

VERSION = "0.2.0"
"""The version of the package: `egrl --version` prints it, Ray workers compare it."""
