"""Boards whose simulators share no code and no structure with the project's own."""
