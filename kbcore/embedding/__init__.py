"""Embedders: what turns a text into a vector, and how to tell one from another."""
