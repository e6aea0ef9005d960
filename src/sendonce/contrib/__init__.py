"""Helpers for the frameworks that applications are written with; each needs its framework, and public names only."""
