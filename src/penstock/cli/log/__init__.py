"""`penstock log`."""
