"""What people and agents touch: the command line. Everything here calls `tunegate.verbs`."""
