"""The inbox: a handler's effect happens once, however often its message comes."""
