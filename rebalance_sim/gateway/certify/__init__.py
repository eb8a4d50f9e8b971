"""Scenarios for any client that a command starts, and what held in them."""
