"""Our files: trained models, run folders, detector folders, and a user's network by name."""
