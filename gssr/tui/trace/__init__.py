"""What a trace tells its screens: states and their colours, what belongs together, an interval in words. No Textual here."""
