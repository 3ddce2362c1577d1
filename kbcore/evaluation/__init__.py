"""Retrieval quality by release: judgments, measures, comparison, gate."""
