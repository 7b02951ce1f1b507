"""Policies over graphs: they see features, edges and numbers of choices, never a chip."""
