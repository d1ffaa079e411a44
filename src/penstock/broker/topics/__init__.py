"""Topics: who gets what is published to them, of every protocol."""
