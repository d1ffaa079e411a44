"""`penstock serve`: configuration, wiring, listeners, life of the process."""
