"""Operators computed in another way with the same integers, where that costs less."""

from tilewright.jit.substitute.search import RULES, Found, Substitution, Substitutions, search, substituted

__all__ = ["RULES", "Found", "Substitution", "Substitutions", "search", "substituted"]
