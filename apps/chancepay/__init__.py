"""Payments requested in one service and deducted in another: an outbox here, an inbox there, a broker between."""
