"""Where messages come from: one file for each kind of broker."""
