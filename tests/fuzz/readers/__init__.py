"""Damaged files for everything that reads files: each is read, or refused in words."""
