"""What is for trying sendonce out and for developing with it: a demonstration, and a receiver."""
