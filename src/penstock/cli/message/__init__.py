"""`penstock publish`, `subscribe`, `produce` and `consume`."""
