"""Generators of the reference: each returns pages, by path, made from sources that tests keep true."""
