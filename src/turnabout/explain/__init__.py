"""Why a model answers as it does: the best simple function near a person, and how far to trust it."""
