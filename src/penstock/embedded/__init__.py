"""The broker inside a Python process: `penstock.open()` and `penstock.open_async()`."""
