"""Scenario files to begin with, made of what somebody knows about a group."""
