"""A knowledge-base system behind a REST API as a source of documents."""
