"""The command line. Importing it, and asking for help, loads none of the parts that do the work."""

from sendonce.cli.main import main

__all__ = ["main"]
