"""A refresh: sources are listed, what changed is fetched, parsed, cut and embedded, and a release is published."""
