"""Hostile input from every side: each line of SECURITY.md has its test here or beside the code it holds."""
