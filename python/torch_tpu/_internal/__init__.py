"""Names that callers of the upstream package import. Each forwards to its public place."""
