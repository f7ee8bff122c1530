"""Upstream's utilities that callers import."""
