"""A git repository as a source of documents."""
