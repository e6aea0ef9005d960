"""Webhooks: tenants register endpoints, publish events, and see what became of every delivery."""
