"""EGRL: a mixed population and a discrete SAC learner over one archive, with its ablations; measures nothing itself."""
