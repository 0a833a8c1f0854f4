"""A context that follows its files: a renewed certificate is taken without a restart.

Kubernetes swaps a link to a folder, cert-manager renames files: so what counts is the file behind the path, by its
number, size and time. Files of two generations do not fit each other, and are soon read again. The context in force
stays until a whole new one is made. Connections that are open keep theirs; `listener_tls` says which may stay open.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable

from odradek.foundation.errors import DependencyError, SettingError
from odradek.security.tls.tls_contexts import TlsMaterial, read_material
from odradek.security.tls.tls_settings import TlsOptions

logger = logging.getLogger(__name__)

Stamps = tuple[tuple[int, int, int] | None, ...]
MakeContext = Callable[[TlsOptions, TlsMaterial], ssl.SSLContext]


class FollowedContext:
    """The context of one listener, or of connections to others."""

    def __init__(self, options: TlsOptions, make: MakeContext) -> None:
        """Raises SettingError or DependencyError."""
        self.options = options
        self._make = make
        self.files = (*options.keystore.files(), *options.truststore.files())
        self._stamps = self._read_stamps()
        self.material = read_material(options)
        self.current = make(options, self.material)
        self._failure = ""
        self.reloads = 0
        self.failed_reloads = 0
        """Attempts to take changed files that failed. Each is made again until it succeeds."""

    def follow(self) -> bool:
        """Take changed files, and say whether there is a new context.

        Blocks for some milliseconds when they changed: not for the event loop.
        """
        stamps = self._read_stamps()
        if stamps == self._stamps:
            return False
        try:
            material = read_material(self.options)
            context = None if material == self.material else self._make(self.options, material)
        except (SettingError, DependencyError) as failure:
            self.failed_reloads += 1
            if str(failure) != self._failure:
                self._failure = str(failure)
                logger.error(
                    "%s keeps its certificates, since the new ones fail: %s", self.options.name, failure
                )
            return False
        self._stamps, self._failure = stamps, ""
        if context is None:
            return False
        self.material, self.current = material, context
        self.reloads += 1
        logger.info("%s has new certificates, for new connections", self.options.name)
        return True

    def _read_stamps(self) -> Stamps:
        stamps: list[tuple[int, int, int] | None] = []
        for path in self.files:
            try:
                found = path.stat()
            except OSError:
                stamps.append(None)
            else:
                stamps.append((found.st_ino, found.st_size, found.st_mtime_ns))
        return tuple(stamps)
