"""The HTTP API: what it takes and gives, as structs."""
