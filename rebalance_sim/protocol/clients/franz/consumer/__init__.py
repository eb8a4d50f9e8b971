"""franz-go 1.22 with ``ServerSideBalancer``: the consumer protocol."""
