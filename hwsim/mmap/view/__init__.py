"""What is shown of a game: to an agent as arrays, to people as pixels; changes no state."""
