"""`penstock policy` and `penstock import`."""
