"""Modules that tools/generate.py writes."""
