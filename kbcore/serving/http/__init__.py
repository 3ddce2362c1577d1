"""``kb serve``: search, releases and their history over HTTP. FastAPI, uvicorn and prometheus-client are used here alone."""
