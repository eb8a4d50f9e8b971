"""Hunts (``scenarios.hunt``) that are carried out in rounds, on this machine's cores or on Spark,
with a folder to continue in."""
