"""Method `revise`: whole games played again with some moves changed."""
