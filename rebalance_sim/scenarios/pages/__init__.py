"""What people read of a run: its timeline, and the page that tells it whole."""
