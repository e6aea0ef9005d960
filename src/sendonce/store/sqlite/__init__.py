"""The SQLite store, on the standard library alone."""
