"""franz-go 1.22 without ``ServerSideBalancer``: the classic protocol."""
