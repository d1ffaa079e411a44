"""`penstock queue`."""
