"""Match conditions: rules as CEL for the API server."""
