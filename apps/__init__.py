"""Reference applications: small, complete services built on the public names of sendonce."""
