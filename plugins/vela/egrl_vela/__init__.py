"""Networks on Arm's Ethos-U: a search over the options of Vela, Arm's compiler, judged by Vela's own estimate."""
