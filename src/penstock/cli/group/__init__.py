"""`penstock group`."""
