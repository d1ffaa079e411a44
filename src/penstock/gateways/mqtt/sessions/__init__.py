"""Who is connected, and to what they subscribe."""
