"""A web site as a source of documents."""
