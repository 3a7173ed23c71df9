"""Which keys are over a threshold: figure 12 of Arasu and Widom."""
