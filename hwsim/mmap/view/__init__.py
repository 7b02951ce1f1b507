"""Views of a game: for agents as arrays, for people as pixels; they change no state."""
