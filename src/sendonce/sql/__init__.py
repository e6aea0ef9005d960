"""What every database has in common: SQL in files, and steps that an executor carries out."""
