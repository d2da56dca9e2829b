"""The models of all providers, behind one port."""
