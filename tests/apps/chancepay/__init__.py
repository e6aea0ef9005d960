"""The payment application: its rules, its two services, their broker, and the money."""
