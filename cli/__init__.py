"""The command line: the only floor that prints, parses arguments and picks exit codes."""
