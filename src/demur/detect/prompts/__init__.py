"""Is a prompt an attack, does it ask for harm?"""
