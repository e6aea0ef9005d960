"""The demonstration: sixty orders, a receiver in trouble, a worker killed in the middle, and who survives it."""
