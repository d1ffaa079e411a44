"""`penstock exchange` and `penstock binding`."""
