"""The version, declared once: the package, the command line and the data directory all read it here."""

VERSION = "0.1.0.dev0"
