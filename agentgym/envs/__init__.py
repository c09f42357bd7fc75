"""One package an environment: everything that is special to it, its scripted and adversarial agents included."""
