"""What franz-go 1.22 (package kgo) does with either protocol; ``consumer`` and ``classic`` add the
rest.

``franz_machine`` is the machine: start reading there. Source: franz §1-§7.
"""
