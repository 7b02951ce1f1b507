"""Method `revise`: whole games played again with some moves changed; `muzero` revises its best games, too."""
