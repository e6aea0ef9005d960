"""The settings file and the environment, read into the small values that each part is built from."""
