"""`penstock dlq`."""
