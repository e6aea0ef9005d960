"""mailto: over SMTP or through the HTTP API of a provider."""
