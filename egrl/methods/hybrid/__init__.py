"""EGRL: a mixed population and a discrete SAC learner over one archive, and its ablations EA and PG."""
