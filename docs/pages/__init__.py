"""One module a generated page; see docs/generate.py."""
