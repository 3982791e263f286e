"""The storage layer: where things are kept, behind one seam."""
