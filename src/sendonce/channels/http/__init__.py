"""Everything that goes out over HTTP: webhooks, named endpoints, and the guarded client below them."""
