"""Authorization of requests: which right each API needs, checked by a step of the dispatcher before the handler."""
