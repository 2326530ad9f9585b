"""What the library promises about crashes, other writers and hostile bytes, shown by breaking things on purpose."""
