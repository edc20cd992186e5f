"""Recourse by group, and the group that is worst off."""
