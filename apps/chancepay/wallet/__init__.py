"""The wallet's side: a ledger in double entry, and a listener that takes each order once."""
