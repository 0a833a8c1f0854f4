"""A descriptor set as protoc writes it, made by hand: one file with an order in it."""

from __future__ import annotations

from typing import Any


def order_set(
    *, names: tuple[str, ...] = ("id", "customer", "lines", "totals", "sent", "state", "size")
) -> bytes:
    """`shop.Order` behind another message in its file. `names` are its fields; others are left out."""
    from google.protobuf import descriptor_pb2, timestamp_pb2

    field = descriptor_pb2.FieldDescriptorProto
    found = descriptor_pb2.FileDescriptorSet()
    found.file.add().ParseFromString(timestamp_pb2.DESCRIPTOR.serialized_pb)
    file = found.file.add(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    file.message_type.add(name="Other")
    order = file.message_type.add(name="Order")
    line = order.nested_type.add(name="Line")
    line.field.add(name="article", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    entry = order.nested_type.add(name="TotalsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=field.TYPE_INT64, label=field.LABEL_OPTIONAL)
    state = order.enum_type.add(name="State")
    state.value.add(name="OPEN", number=0)
    state.value.add(name="PAID", number=1)
    kinds: dict[str, dict[str, Any]] = {
        "id": {"type": field.TYPE_INT64},
        "customer": {"type": field.TYPE_STRING, "proto3_optional": True, "oneof_index": 0},
        "lines": {
            "type": field.TYPE_MESSAGE,
            "type_name": ".shop.Order.Line",
            "label": field.LABEL_REPEATED,
        },
        "totals": {
            "type": field.TYPE_MESSAGE,
            "type_name": ".shop.Order.TotalsEntry",
            "label": field.LABEL_REPEATED,
        },
        "sent": {"type": field.TYPE_MESSAGE, "type_name": ".google.protobuf.Timestamp"},
        "state": {"type": field.TYPE_ENUM, "type_name": ".shop.Order.State"},
        "size": {"type": field.TYPE_UINT64},
    }
    for number, (name, kind) in enumerate(kinds.items(), 1):
        if name in names:
            order.field.add(**{"name": name, "number": number, "label": field.LABEL_OPTIONAL, **kind})
    if "customer" in names:
        order.oneof_decl.add(name="_customer")
    return bytes(found.SerializeToString())


def order_bytes(**values: Any) -> bytes:
    """A message `shop.Order`; `seconds` is the time of `sent`, `lines` are articles."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    for one in descriptor_pb2.FileDescriptorSet.FromString(order_set()).file:
        pool.Add(one)
    order = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))()
    for article in values.pop("lines", ()):
        order.lines.add(article=article)
    order.totals.update(values.pop("totals", {}))
    if "seconds" in values:
        order.sent.seconds = values.pop("seconds")
    for name, value in values.items():
        setattr(order, name, value)
    return bytes(order.SerializeToString())
