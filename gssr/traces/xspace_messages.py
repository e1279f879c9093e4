"""The messages of an XSpace within its lists, for google.protobuf, with the field numbers of xplane.proto (OpenXLA,
Apache-2.0: github.com/openxla/xla, third_party/tsl/tsl/profiler/protobuf/xplane.proto).

Texts are bytes here: a damaged one must not cost the event that it is in.
"""

from functools import cache
from typing import Any

_INT64, _UINT64, _DOUBLE, _BYTES, _MESSAGE = 3, 4, 1, 12, 11
"""Types of fields, as descriptor.proto numbers them."""
_FIELDS = {
    "XStat": (
        ("metadata_id", 1, _INT64), ("double_value", 2, _DOUBLE), ("uint64_value", 3, _UINT64), ("int64_value", 4, _INT64),
        ("str_value", 5, _BYTES), ("ref_value", 7, _UINT64),
    ),
    "XEvent": (
        ("metadata_id", 1, _INT64), ("offset_ps", 2, _INT64), ("duration_ps", 3, _INT64), ("stats", 4, "XStat"),
        ("num_occurrences", 5, _INT64),
    ),
    "XEventMetadata": (("id", 1, _INT64), ("name", 2, _BYTES), ("display_name", 4, _BYTES), ("stats", 5, "XStat")),
    "XStatMetadata": (("id", 1, _INT64), ("name", 2, _BYTES)),
    "XLine": (("events", 4, "XEvent"),),
}  # fmt: skip
"""By message: names, numbers and types of the fields that are read; a message stands for a list of them."""


@cache
def message(name: str) -> Any:
    """Return the class of one of the messages."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="gssr/xplane.proto", package="gssr", syntax="proto3")
    for own, listed in _FIELDS.items():
        made = file.message_type.add(name=own)
        for field, number, kind in listed:
            is_list = isinstance(kind, str)
            made.field.add(
                name=field, number=number, label=3 if is_list else 1, type=_MESSAGE if is_list else kind,
                type_name=f".gssr.{kind}" if is_list else None,
            )  # fmt: skip
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"gssr.{name}"))
