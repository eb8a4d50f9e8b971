"""What each API does: a message in, a message out."""
