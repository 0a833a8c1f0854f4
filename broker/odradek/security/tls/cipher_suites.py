"""`ssl.cipher.suites`: Java's names of the suites of TLS 1.2 (IANA's registry), and OpenSSL's for them.

Only suites with forward secrecy and authenticated encryption are here; others are refused by name. The suites of TLS
1.3 are all strong. Python 3.11 cannot choose among them, so a list must name all of them or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from odradek.foundation.errors import SettingError

KEY: Final = "ssl.cipher.suites"

TLS_1_2_SUITES: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384": "DHE-RSA-AES256-GCM-SHA384",
    "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256": "DHE-RSA-AES128-GCM-SHA256",
    "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "DHE-RSA-CHACHA20-POLY1305",
}
TLS_1_3_SUITES: Final = frozenset(
    ("TLS_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256")
)


class ChosenSuites:
    """The suites that a list allows. `tls_1_2` is OpenSSL's text, empty for none; `is_tls_1_3` allows TLS 1.3."""

    def __init__(self, names: Sequence[str]) -> None:
        """Raises SettingError for a suite that is unknown or weak, and for some suites of TLS 1.3 without the rest."""
        unknown = [name for name in names if name not in TLS_1_2_SUITES and name not in TLS_1_3_SUITES]
        if unknown:
            raise SettingError(
                f"Invalid value {','.join(names)} for configuration {KEY}: {unknown[0]} is unknown or has no forward "
                f"secrecy; choose from {', '.join((*TLS_1_2_SUITES, *sorted(TLS_1_3_SUITES)))}"
            )
        given = TLS_1_3_SUITES.intersection(names)
        if given and given != TLS_1_3_SUITES:
            raise SettingError(
                f"Invalid value {','.join(names)} for configuration {KEY}: it must name all suites of TLS 1.3 or none, "
                f"since one cannot be left out; add {', '.join(sorted(TLS_1_3_SUITES - given))}"
            )
        self.is_tls_1_3 = bool(given)
        self.tls_1_2 = ":".join(TLS_1_2_SUITES[name] for name in names if name in TLS_1_2_SUITES)
