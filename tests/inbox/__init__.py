"""The inbox on real databases, through every kind of connection."""
