"""Recording in the caller's own transaction: pure statements, and one thin executor per driver."""
