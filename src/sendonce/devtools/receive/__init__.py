"""A receiver for trying things out: it shows what arrives, remembers what it has, and misbehaves when told to."""
