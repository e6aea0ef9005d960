"""Tests that run on the lowest versions that an installation may have."""
