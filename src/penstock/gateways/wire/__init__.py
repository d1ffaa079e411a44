"""What is between a socket and a protocol, the same for every door."""
