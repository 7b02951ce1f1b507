"""Models around a package that measurements on a board choose from (`hwsim.family`)."""
