"""Where the keeper writes what the journal has."""
