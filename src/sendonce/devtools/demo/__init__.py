"""The demonstration: sixty orders, a receiver in trouble, a worker killed as it sends, and one that asks first."""
