"""`penstock demo`, `scene` and `tour`."""
