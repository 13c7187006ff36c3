"""The command line ``csm``: thin commands over the library, each loaded only when it is called."""
