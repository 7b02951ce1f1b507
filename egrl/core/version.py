"""The version of the package: what `egrl --version` says, and what Ray workers compare."""

VERSION = "0.1.0"
