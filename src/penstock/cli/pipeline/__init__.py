"""`penstock pipeline`."""
