"""Programs that show Penstock at work, started from a checkout."""
