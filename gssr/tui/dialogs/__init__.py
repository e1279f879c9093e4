"""Dialogs over the screen: they cover what is under them."""
