"""The requests' side: a payment is recorded with the message that asks the wallet for it, in one transaction."""
