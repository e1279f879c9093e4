"""A simulated DCGM hostengine and the client below the stand-in bindings."""
