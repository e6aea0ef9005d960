"""The demonstration: both services on SQLite, a broker beside them, and everything that goes wrong on purpose."""
