"""The command line: the only layer that prints, parses arguments and picks exit codes."""
