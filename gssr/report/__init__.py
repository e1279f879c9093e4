"""What is read afterwards: the terminal page, pictures, JSON."""
