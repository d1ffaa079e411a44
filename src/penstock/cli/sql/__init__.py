"""`penstock sql`."""
