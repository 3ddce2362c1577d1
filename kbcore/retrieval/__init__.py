"""Search over one release."""

from kbcore.retrieval.retriever import Retriever

__all__ = ["Retriever"]
