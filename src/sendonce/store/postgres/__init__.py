"""PostgreSQL through psycopg 3: whole batches in one statement, no session state, no named prepared statements."""
