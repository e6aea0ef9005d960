"""Facts, emitted after commit and per batch; one module words them for the log."""
