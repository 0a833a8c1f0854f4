"""kafka-python's record classes; importing them warns of an outdated call, which is not ours to mend."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
    from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder
    from kafka.record.legacy_records import LegacyRecordBatchBuilder as KafkaPythonLegacyBuilder

__all__ = ["KafkaPythonBatch", "KafkaPythonBuilder", "KafkaPythonLegacyBuilder"]
