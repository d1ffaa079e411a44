"""A package of its own: one of the clients under test installs another of this name."""
