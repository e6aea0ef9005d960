"""Where everything is kept: the ports, one small protocol per reader, and one folder per database."""
