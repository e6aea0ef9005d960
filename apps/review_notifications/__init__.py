"""Review notifications: a review's job tells each recipient once for each version, and says how far that has come."""
