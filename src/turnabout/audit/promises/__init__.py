"""Whether answers given today will be honoured: by retrained models, shifted and newer data."""
