"""Helpers for frameworks, on the frameworks themselves and real databases."""
