"""`penstock serve`, and what asks a running server about itself."""
