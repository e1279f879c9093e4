"""The live screen: one recording, or two beside each other, growing or finished."""
