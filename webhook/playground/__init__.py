"""The page on which policies are tried: `cks-admission playground`."""
