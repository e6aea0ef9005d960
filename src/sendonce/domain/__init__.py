"""The pure core: events, destinations, deliveries, attempts, outcomes, policies and decide(). No I/O, no clock."""
