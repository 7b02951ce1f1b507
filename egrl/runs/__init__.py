"""What a run is made of and what it leaves: configuration, folder, checkpoints, summary; knows no method by name."""
