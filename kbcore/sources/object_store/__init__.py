"""A bucket of an object store as a source of documents."""
