"""Archives of Score-P (OTF2): definitions and events by libotf2 in a process of its own, matched, as a Timeline."""
