"""The first set; README.md says how it was made."""
