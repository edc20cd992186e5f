"""How far to trust attributions, and which to show."""
