"""The proven upper bound on the return of any game, by a linear program; knows no player."""
