"""Pure drawing: values in, rows of (text, role) out; no Textual, no plotext."""
