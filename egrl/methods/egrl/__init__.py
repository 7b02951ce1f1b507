"""Algorithm 2 of EGRL: a mixed population and a learner over one archive, or either of them alone."""
