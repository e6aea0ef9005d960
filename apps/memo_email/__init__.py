"""Memos whose e-mails are recorded with them, in one transaction, and then sent."""
