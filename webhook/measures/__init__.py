"""Parts of the metrics: families of metrics about one thing, and what their values are read from."""
