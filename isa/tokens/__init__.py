"""Tokens: which a program needs, found from what its instructions read and write."""
