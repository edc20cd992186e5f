"""LIME for tables, texts and images, and what it tends to."""
