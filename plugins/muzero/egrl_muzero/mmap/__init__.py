"""What an agent sees of the MMapGame, and the game as an environment of Gymnasium."""
