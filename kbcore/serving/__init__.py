"""Serving releases to people and agents: what HTTP, MCP and the framework adapters share stands here."""
