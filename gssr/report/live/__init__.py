"""Parts of a result in words and rows, as the screens show them: values in, rows out, no terminal."""
