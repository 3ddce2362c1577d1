"""``kb serve``: search, releases and their history over HTTP. FastAPI and prometheus-client are used here alone."""
