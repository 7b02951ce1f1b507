"""From the measurements of runs to a description of the board that is fitted to them."""
