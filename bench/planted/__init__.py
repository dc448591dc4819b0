"""Planted bugs: toy projects with one fault each, and right but odd ones, held to the gates."""
