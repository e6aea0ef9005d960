"""Loops that fetch, decide and apply: orchestrator, sender, lease keeper, and the worker that holds them together."""
