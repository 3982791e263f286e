"""The command line `holdfast`: looking at a store, keeping it in order, taking things in and out."""
