"""Measuring on a Ray cluster (the extra `ray`): the only room that imports ray, and it knows no boards."""
